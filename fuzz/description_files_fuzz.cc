#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "atp/config/interconnect/interconnect_file.h"
#include "atp/config/model_file.h"
#include "atp/config/plan_json.h"
#include "atp/config/site/site_reader.h"

// Whatever bytes a description file has, its reader returns a value or an error that names the
// file. And a small plan for it can be written as JSON, whatever its names are.

namespace {

[[noreturn]] void fail(const char* what, const std::string& text) {
  std::fprintf(stderr, "%s:\n%s\n", what, text.c_str());
  std::abort();
}

template <class T>
void check_error(const atp::Result<T>& result) {
  if (!result.ok() && !result.error().message.starts_with("f")) {
    fail("an error that does not name the file", result.error().message);
  }
}

void check_plan(const atp::planner::Interconnect& interconnect,
                const atp::planner::Transformer& model) {
  if (atp::planner::device_count(interconnect) > 64) return;
  const atp::planner::Request request{
      .interconnect = interconnect, .model = model, .workload = {.batch = 64, .sequence = 16}};
  const atp::Result<atp::planner::Plan> plan = atp::planner::plan(request);
  // dump() throws if a string is not UTF-8.
  if (plan.ok() && atp::plan_json(request, plan.value()).empty()) fail("no JSON", "");
}

const atp::planner::Transformer kModel{.name = "gpt", .hidden = 960, .layers = 2, .heads = 240};
const atp::planner::Interconnect kPair{.name = "pair",
                                       .levels = {{.name = "gpu", .count = 2, .bandwidth = {1e9}}}};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const atp::Result<atp::Cluster> cluster = atp::parse_cluster(text, "f");
  check_error(cluster);
  if (cluster.ok()) check_plan(cluster.value().interconnect, kModel);
  check_error(atp::parse_site(text, "f"));
  const atp::Result<atp::Model> model = atp::parse_model(text, "f");
  check_error(model);
  if (model.ok()) check_plan(kPair, model.value().transformer);
  return 0;
}
