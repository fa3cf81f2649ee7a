#include <fmt/format.h>

#include <memory>

#include "atp/cli/command.h"
#include "atp/cli/plan/output_file.h"
#include "atp/cli/plan/plan_command.h"
#include "atp/cli/plan/plan_inputs.h"
#include "atp/cli/plan/plan_text.h"
#include "atp/config/plan_json.h"

namespace atp {
namespace {

constexpr const char* kExamples = R"(Examples:
  atp plan best --topology examples/topologies/flat-8.yaml --model examples/models/gpt2-medium.json --workers 8
  atp plan best --topology examples/topologies/nvswitch-8.yaml --hidden 8192 --layers 48 --heads 64 --batch 4
  atp plan best --topology examples/topologies/fig7a.yaml --model examples/models/gpt3-175b.json --mode paper --svg meshes.svg)";

struct BestOptions {
  PlanInputs inputs;
  bool json = false;
  bool csv = false;
  std::string svg_file;
};

void run_best(const BestOptions& options) {
  const planner::Request request = read_request(options.inputs);
  const Result<planner::Plan> planned = planner::plan(request);
  if (!planned) throw CommandError(planned.error().message);
  const planner::Plan& plan = planned.value();
  if (options.json) {
    fmt::print("{}\n", plan_json(request, plan).dump(2));
  } else if (options.csv) {
    fmt::print("{}", mesh_csv(plan).csv());
  } else {
    fmt::print("{}\n{}\n{}{}\n{}", request_text(request, plan), verdict_text(request, plan),
               mesh_table(plan).text(), rejected_text(plan), reasons_text(request, plan));
  }
  if (!options.svg_file.empty()) {
    write_output_file(options.svg_file, draw(mesh_chart(request, plan)));
  }
}

}  // namespace

void add_best_command(CLI::App& plan) {
  CLI::App* command = plan.add_subcommand("best", "The best mesh, and the runners-up");
  command->footer(kExamples);
  const auto options = std::make_shared<BestOptions>();
  add_plan_inputs(*command, options->inputs);
  CLI::Option* json = command->add_flag("--json", options->json, "Print JSON instead of a table");
  command->add_flag("--csv", options->csv, "Print the meshes as CSV instead of a table")
      ->excludes(json);
  command->add_option("--svg", options->svg_file, "Also draw the meshes into this file")
      ->type_name("FILE");
  command->callback([options] { run_best(*options); });
}

}  // namespace atp
