#include <fmt/format.h>

#include <memory>

#include "atp/cli/command.h"
#include "atp/cli/plan/plan_command.h"
#include "atp/cli/plan/plan_inputs.h"
#include "atp/cli/plan/plan_text.h"
#include "atp/config/plan_json.h"

namespace atp {
namespace {

constexpr const char* kExamples = R"(Examples:
  atp plan explain --topology examples/topologies/flat-8.yaml --model examples/models/gpt2-medium.json
      why the best mesh costs what it costs
  atp plan explain --topology examples/topologies/flat-8.yaml --model examples/models/gpt2-medium.json --mesh 4,2
      the same of another mesh, beside the best)";

struct ExplainOptions {
  PlanInputs inputs;
  std::string mesh;
  bool json = false;
};

void run_explain(const ExplainOptions& options) {
  const planner::Request request = read_request(options.inputs);
  const Result<planner::Plan> plan = planner::plan(request);
  if (options.mesh.empty()) {
    if (!plan) throw CommandError(plan.error().message);
    if (options.json) {
      fmt::print("{}\n", candidate_json(plan.value().best).dump(2));
      return;
    }
    fmt::print("{}\n{}\n{}", request_text(request, plan.value()),
               candidate_text(request, plan.value().best), reasons_text(request, plan.value()));
    return;
  }
  const planner::Mesh mesh = parse_mesh(options.mesh);
  const std::uint64_t devices = planner::device_count(request.interconnect);
  if (mesh.size() != devices) {
    throw CommandError(
        fmt::format("--mesh {}: found {} x {} = {}, expected the {} devices of {}", options.mesh,
                    mesh.d1, mesh.d2, mesh.size(), devices, options.inputs.topology_file),
        kWrongUsage);
  }
  const Result<planner::Candidate> candidate = planner::evaluate(request, mesh);
  if (!candidate) throw CommandError(candidate.error().message, kWrongUsage);
  if (options.json) {
    fmt::print("{}\n", candidate_json(candidate.value()).dump(2));
    return;
  }
  fmt::print("{}", candidate_text(request, candidate.value()));
  if (!plan) {
    fmt::print("\n{}\n", plan.error().message);
    return;
  }
  for (const planner::RejectedMesh& rejected : plan.value().rejected) {
    if (!(rejected.mesh == mesh)) continue;
    fmt::print("\nThis model cannot run on it: {}.\n", fmt::join(rejected.reasons, "; "));
  }
  if (plan.value().best.mesh == mesh) {
    fmt::print("\nIt is the best.\n");
    return;
  }
  fmt::print("\nThe best is\n{}", candidate_text(request, plan.value().best));
}

}  // namespace

void add_explain_command(CLI::App& plan) {
  CLI::App* command = plan.add_subcommand(
      "explain", "What one mesh costs: bytes, links, groups, latencies, memory");
  command->footer(kExamples);
  const auto options = std::make_shared<ExplainOptions>();
  add_plan_inputs(*command, options->inputs);
  command->add_option("--mesh", options->mesh, "The mesh (default: the best)")->type_name("D1,D2");
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([options] { run_explain(*options); });
}

}  // namespace atp
