#include "atp/cli/plan/plan_command.h"

namespace atp {
namespace {

constexpr const char* kExamples =
    R"(Examples, from the root of a checkout:
  atp plan best --topology examples/topologies/pcie-8.yaml --model examples/models/gpt2-medium.json
      a server with eight GPUs on PCIe
  atp plan best --topology examples/topologies/two-nvlink-boxes.yaml --model examples/models/llama-3-70b.json
      two servers with NVLink, joined by InfiniBand
  atp plan best --topology examples/topologies/flat-8.yaml --model examples/models/gpt2-medium.json --workers 8 --json
      eight machines on one Ethernet switch that sums in the network; for a program
  atp plan explain --topology examples/topologies/two-racks.yaml --model examples/models/gpt3-175b.json --mesh 8,2
      two oversubscribed racks: what this mesh costs, and where
  nvidia-smi topo -m | atp plan import - > mine.yaml
      a description of the machine that you are on
Exit codes: 0 success; 1 no mesh can run the model, or writing failed; 2 a flag or a file is wrong.)";

}  // namespace

void add_plan_command(CLI::App& app) {
  CLI::App* plan = app.add_subcommand(
      "plan", "Find the device mesh for tensor parallelism on a described interconnect");
  plan->footer(kExamples);
  plan->require_subcommand(1);
  add_best_command(*plan);
  add_explain_command(*plan);
  add_sweep_command(*plan);
  add_matrix_command(*plan);
  add_import_command(*plan);
  add_paper_command(*plan);
  add_measuring_commands(*plan);
}

}  // namespace atp
