#include "atp/cli/plan/plan_command.h"

#include <fmt/format.h>

#include <memory>

#include "atp/cli/command/command.h"
#include "atp/cli/plan/plan_inputs.h"
#include "atp/cli/plan/plan_text.h"
#include "atp/config/plan_json.h"
#include "atp/config/text/words.h"

namespace atp {
namespace {

constexpr const char* kPlanExamples =
    R"(Examples, from the root of a checkout:
  atp plan best --cluster examples/clusters/pcie-8.yaml --model examples/models/gpt2-medium.json
      plan for a server with eight GPUs on PCIe
  atp plan best --cluster examples/clusters/two-nvlink-boxes.yaml --model examples/models/llama-3-70b.json
      plan for two servers with NVLink, connected by InfiniBand
  atp plan best --cluster examples/clusters/flat-8.yaml --model examples/models/gpt2-medium.json --ranks 8 --json
      plan for eight machines on one Ethernet switch that aggregates; print JSON for programs
  atp plan explain --cluster examples/clusters/two-racks.yaml --model examples/models/gpt3-175b.json --mesh 8,2
      explain what this mesh costs on two oversubscribed racks, and where
  atp plan aggregation --cluster examples/clusters/four-equal-hosts.yaml
      for data parallelism: find which link bounds in-network sums, and whether a ring is faster
  nvidia-smi topo -m | atp plan import - > mine.yaml
      describe the machine you are on
Exit codes: 0 success, 1 no mesh can run the model or writing failed, 2 wrong usage or a bad file.)";

constexpr const char* kBestExamples = R"(Examples:
  atp plan best --cluster examples/clusters/flat-8.yaml --model examples/models/gpt2-medium.json --ranks 8
  atp plan best --cluster examples/clusters/nvswitch-8.yaml --hidden 8192 --layers 48 --heads 64 --batch 4
  atp plan best --cluster examples/clusters/fig7a.yaml --model examples/models/gpt3-175b.json --mode paper --csv
  atp plan best --cluster examples/clusters/two-racks.yaml --model examples/models/llama-3-8b.json --data-parallel auto --batch 32)";

struct BestOptions {
  PlanInputs inputs;
  std::string data_parallel = "1";
  bool fully_shard = false;
  bool json = false;
  bool csv = false;
};

// 0 for "auto".
std::uint32_t read_replicas(const std::string& text) {
  if (text == "auto") return 0;
  const auto number = parse_integer(text).value_or(0);
  if (number < 1 || number > static_cast<long long>(planner::kMaxDevices)) {
    throw CommandError(
        fmt::format("--data-parallel {}: expected a number of replicas, or auto", text),
        kWrongUsage);
  }
  return static_cast<std::uint32_t>(number);
}

void run_best(const BestOptions& options) {
  planner::Request request = read_request(options.inputs);
  request.options.replicas = read_replicas(options.data_parallel);
  request.options.fully_shard = options.fully_shard;
  request.options.data = request.options.dimension1;
  const Result<planner::Plan> planned = planner::plan(request);
  if (!planned) throw CommandError(planned.error().message);
  const planner::Plan& plan = planned.value();
  if (options.json) {
    fmt::print("{}\n", plan_json(request, plan, 2));
  } else if (options.csv) {
    fmt::print("{}", mesh_csv(plan).csv());
  } else {
    fmt::print("{}\n{}\n{}{}\n{}", request_text(request, plan), verdict_text(request, plan),
               mesh_table(plan).text(), rejected_text(plan), reasons_text(request, plan));
  }
}

constexpr const char* kExplainExamples = R"(Examples:
  atp plan explain --cluster examples/clusters/flat-8.yaml --model examples/models/gpt2-medium.json
      explain the cost of the best mesh
  atp plan explain --cluster examples/clusters/flat-8.yaml --model examples/models/gpt2-medium.json --mesh 4,2
      explain the cost of another mesh, and compare it with the best)";

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
      fmt::print("{}\n", candidate_json(plan.value().best, 2));
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
                    mesh.d1, mesh.d2, mesh.size(), devices, options.inputs.cluster_file),
        kWrongUsage);
  }
  const Result<planner::Candidate> candidate = planner::evaluate(request, mesh);
  if (!candidate) throw CommandError(candidate.error().message, kWrongUsage);
  if (options.json) {
    fmt::print("{}\n", candidate_json(candidate.value(), 2));
    return;
  }
  fmt::print("{}", candidate_text(request, candidate.value()));
  if (!plan) {
    fmt::print("\n{}\n", plan.error().message);
    return;
  }
  for (const planner::RejectedMesh& rejected : plan.value().rejected) {
    if (!(rejected.mesh == mesh)) continue;
    fmt::print("\nThis model cannot run on this mesh: {}.\n", fmt::join(rejected.reasons, "; "));
  }
  if (plan.value().best.mesh == mesh) {
    fmt::print("\nThis is the best mesh.\n");
    return;
  }
  fmt::print("\nThe best mesh is\n{}", candidate_text(request, plan.value().best));
}

}  // namespace

void add_best_command(const Command& plan) {
  const Command command = plan.add_command("best", "Find the best mesh, and the runners-up");
  command.footer(kBestExamples);
  const auto options = std::make_shared<BestOptions>();
  add_plan_inputs(command, options->inputs);
  command
      .add_option("--data-parallel", options->data_parallel,
                  "Replicas of the mesh, which share the batch; auto: the number that is fastest")
      .type_name("N")
      .show_default();
  command.add_flag("--fully-shard", options->fully_shard,
                   "Replicas hold parts of the weights and gather them (FSDP)");
  Option json = command.add_flag("--json", options->json, "Print JSON instead of a table");
  command.add_flag("--csv", options->csv, "Print the meshes as CSV instead of a table")
      .excludes(json);
  command.callback([options] { run_best(*options); });
}

void add_explain_command(const Command& plan) {
  const Command command = plan.add_command(
      "explain", "Explain the cost of one mesh: bytes, links, groups, latencies, memory");
  command.footer(kExplainExamples);
  const auto options = std::make_shared<ExplainOptions>();
  add_plan_inputs(command, options->inputs);
  command.add_option("--mesh", options->mesh, "Mesh to explain (default: the best)")
      .type_name("D1,D2");
  command.add_flag("--json", options->json, "Print JSON");
  command.callback([options] { run_explain(*options); });
}

void add_plan_command(const Command& program) {
  const Command plan = program.add_command(
      "plan", "Find the best device mesh for tensor parallelism, and bounds for in-network sums");
  plan.footer(kPlanExamples);
  plan.require_command();
  add_best_command(plan);
  add_explain_command(plan);
  add_sweep_command(plan);
  add_matrix_command(plan);
  add_aggregation_command(plan);
  add_python_commands(plan);
}

}  // namespace atp
