#include <fmt/core.h>

#include <algorithm>
#include <memory>

#include "atp/cli/command/command.h"
#include "atp/cli/plan/plan_command.h"
#include "atp/cli/plan/plan_inputs.h"
#include "atp/cli/plan/sweep.h"
#include "atp/config/text/file.h"
#include "atp/config/text/words.h"

namespace atp {
namespace {

constexpr const char* kSweepExamples = R"(Examples:
  atp plan sweep --cluster examples/clusters/flat-8.yaml --model examples/models/gpt3-175b.json --element-bytes 4
      try 2 to 64 machines on the switch, with and without in-network aggregation
  atp plan sweep --cluster examples/clusters/two-nvlink-boxes.yaml --model examples/models/llama-3-70b.json
      --count box=2,4,8,16 --bandwidth box=0.25,0.5,1,2,4 --csv
      vary the number of boxes, and the bandwidth of the network between them)";

struct SweepOptions {
  PlanInputs inputs;
  std::string count;
  std::string bandwidth;
  bool csv = false;
};

std::size_t find_level(const planner::Interconnect& interconnect, const std::string& name,
                       const std::string& option) {
  std::vector<std::string_view> names;
  names.reserve(interconnect.levels.size());
  for (const planner::Level& level : interconnect.levels) names.push_back(level.name);
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) {
    throw CommandError(
        fmt::format("{}: the cluster has no level {}; {}", option, shown(name), hint(name, names)),
        kWrongUsage);
  }
  return static_cast<std::size_t>(found - names.begin());
}

// "box=2,4,8"
SweepAxis parse_axis(const planner::Interconnect& interconnect, const std::string& text,
                     const std::string& option, bool whole) {
  SweepAxis axis;
  if (text.empty()) return axis;
  const std::size_t equals = text.find('=');
  axis.level = find_level(interconnect, text.substr(0, equals), option);
  std::string_view rest =
      equals == std::string::npos ? "" : std::string_view(text).substr(equals + 1);
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(','), rest.size());
    const std::optional<double> value = parse_number(rest.substr(0, end));
    const bool is_count = value && *value >= 1 && *value <= planner::kMaxDevices &&
                          *value == static_cast<double>(static_cast<long long>(*value));
    if (!value || *value <= 0 || *value > 1e6 || (whole && !is_count)) {
      throw CommandError(
          fmt::format("{} {}: {} is not a {}", option, text, shown(rest.substr(0, end)),
                      whole ? "whole number from 1 to " + std::to_string(planner::kMaxDevices)
                            : "number above 0 and at most 1e6"),
          kWrongUsage);
    }
    axis.values.push_back(*value);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  if (axis.values.empty()) {
    throw CommandError(fmt::format("{} {}: expected LEVEL=VALUE,VALUE,...", option, text),
                       kWrongUsage);
  }
  return axis;
}

// A count that the level's kind does not allow is an error, not a point without a mesh.
void check_counts(planner::Interconnect interconnect, const SweepAxis& count) {
  for (const double value : count.values) {
    interconnect.levels[count.level].count = static_cast<std::uint32_t>(value);
    const Status valid = planner::validate(interconnect);
    if (valid) continue;
    throw CommandError(fmt::format("--count {}={}: {}", interconnect.levels[count.level].name,
                                   value, valid.error().message),
                       kWrongUsage);
  }
}

void run_sweep_command(const SweepOptions& options) {
  const planner::Request request = read_request(options.inputs);
  const planner::Interconnect& interconnect = request.interconnect;
  SweepAxis count = parse_axis(interconnect, options.count, "--count", true);
  const SweepAxis factor = parse_axis(interconnect, options.bandwidth, "--bandwidth", false);
  if (count.values.empty() && factor.values.empty()) count.values = {2, 4, 8, 16, 32, 64};
  if (!count.values.empty() && (interconnect.point_to_point || !interconnect.measured.empty())) {
    throw CommandError(fmt::format("{} describes individual devices (point_to_point or measured), "
                                   "so its counts cannot vary; use --bandwidth",
                                   options.inputs.cluster_file),
                       kWrongUsage);
  }
  if (!count.values.empty() && options.inputs.ranks != 0) {
    throw CommandError(
        "--ranks fixes the number of devices, which a sweep of counts varies; remove it, or use "
        "--bandwidth",
        kWrongUsage);
  }
  check_counts(interconnect, count);
  const PlanSweep sweep = run_sweep(request, count, factor);
  if (options.csv) {
    fmt::print("{}", sweep_csv(sweep).csv());
  } else {
    fmt::print("{}\n\n{}{}", sweep.title, sweep_table(sweep).text(), sweep_reasons(sweep));
  }
}

}  // namespace

void add_sweep_command(const Command& plan) {
  const Command command = plan.add_command("sweep",
                                           "Find the best mesh for many device counts and "
                                           "bandwidths, with and without in-network aggregation");
  command.footer(kSweepExamples);
  const auto options = std::make_shared<SweepOptions>();
  add_plan_inputs(command, options->inputs);
  command
      .add_option("--count", options->count,
                  "Counts to try for a level (default: 2 to 64 for the top level)")
      .type_name("LEVEL=N,N,...");
  command
      .add_option("--bandwidth", options->bandwidth, "Factors to try for the bandwidth of a level")
      .type_name("LEVEL=X,X,...");
  command.add_flag("--csv", options->csv, "Print CSV");
  command.callback([options] { run_sweep_command(*options); });
}

}  // namespace atp
