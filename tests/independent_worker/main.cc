// A rank of the product, for comparison with the independent worker: reads the operations in
// FOLDER/plan, submits them all, and writes the result of each to FOLDER.
//
//   reference_rank FOLDER
//
// A line of the plan is "TYPE REDUCTION TAG SEGMENT…", with the lengths of the segments in values.
// The contribution of rank R to line I, counted from 0, is in FOLDER/I.R.in, and the result goes to
// FOLDER/I.R.out, both in host byte order.

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "atp/collective/communicator.h"

namespace {

struct Step {
  atp::DataType type = atp::DataType::kFloat32;
  atp::CollectiveRequest options;
  std::vector<char> bytes;
  std::string name;  // of its files, without in or out
};

std::vector<Step> read_plan(const std::filesystem::path& folder, int rank) {
  std::vector<Step> steps;
  std::ifstream plan(folder / "plan");
  for (std::string line; std::getline(plan, line);) {
    std::istringstream words(line);
    std::string type;
    std::string reduction;
    Step step;
    words >> type >> reduction >> step.options.tag;
    step.type = type == "float32"   ? atp::DataType::kFloat32
                : type == "float16" ? atp::DataType::kFloat16
                                    : atp::DataType::kInt32;
    step.options.reduction = reduction == "sum"   ? atp::ElementReduction::kSum
                             : reduction == "avg" ? atp::ElementReduction::kAverage
                             : reduction == "max" ? atp::ElementReduction::kMax
                                                  : atp::ElementReduction::kMin;
    step.options.segments.assign(std::istream_iterator<std::size_t>(words), {});
    step.name = std::to_string(steps.size()) + "." + std::to_string(rank);
    std::ifstream in(folder / (step.name + ".in"), std::ios::binary);
    step.bytes.assign(std::istreambuf_iterator<char>(in), {});
    steps.push_back(std::move(step));
  }
  return steps;
}

int fail(const std::string& message) {
  std::fprintf(stderr, "%s\n", message.c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return fail("usage: reference_rank FOLDER");
  const std::filesystem::path folder = argv[1];
  const auto options = atp::CommunicatorOptions::from_environment();
  if (!options) return fail(options.error().message);
  const auto joined = atp::Communicator::connect(options.value());
  if (!joined) return fail(joined.error().message);
  atp::Communicator& communicator = *joined.value();

  std::vector<Step> steps = read_plan(folder, communicator.rank());
  std::vector<atp::Handle> handles;
  handles.reserve(steps.size());
  for (Step& step : steps) {
    handles.push_back(communicator.all_reduce(std::as_writable_bytes(std::span(step.bytes)),
                                              atp::kind_of(step.type), step.options));
  }
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const atp::Status status = handles[i].wait();
    if (!status) return fail("operation " + std::to_string(i) + ": " + status.error().message);
    std::ofstream out(folder / (steps[i].name + ".out"), std::ios::binary);
    out.write(steps[i].bytes.data(), static_cast<std::streamsize>(steps[i].bytes.size()));
  }
  const atp::Status left = communicator.shutdown();
  return left ? 0 : fail(left.error().message);
}
