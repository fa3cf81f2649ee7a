#include <fmt/format.h>

#include <filesystem>

#include "atp/cli/command.h"
#include "atp/cli/guard.h"
#include "atp/cli/run_options.h"

namespace atp {
namespace {

constexpr const char* kExamples = R"(Examples:
  atp run -n 4 -- python train.py --epochs 2
      4 ranks with torchrun's variables and ATP_JOB, ATP_INCARNATION, ATP_ROUTE
  atp run -n 4 --tag-output -- sh -c 'echo $RANK of $WORLD_SIZE'
      each line with the rank it came from
  atp run -n 8 --values 350 --stats-dir out -- atp bench allreduce
      fragments as on Ethernet; counters in out/switch.jsonl and out/server.jsonl
  atp run -n 4 --servers 2 -- atp bench allreduce
      two servers, each with a part of every large tensor
  atp run -n 4 --servers-inside -- python train.py
      four, one in the process of each rank
  atp run --cluster cluster.yaml --host a0
      the switches and servers that the file gives to host a0, until a signal ends them
  atp run --cluster cluster.yaml --host a1 -- python train.py
      the ranks of host a1, in a job over all hosts of the file
  atp run --cluster cluster.yaml --host a1 --hosts a1,b1 --job 7 --incarnation 3 -- ./program
      a job over two of them, beside others
Exit code: that of the first rank that failed (128 + signal if killed, 127 if CMD is not found).)";

void run_job(const RunOptions& options) {
  const HostPart part = part_of(options);
  if (!options.stats_folder.empty()) {
    std::error_code problem;
    std::filesystem::create_directories(options.stats_folder, problem);
    if (problem) {
      throw CommandError(
          fmt::format("cannot make --stats-dir {}: {}", options.stats_folder, problem.message()));
    }
  }
  const int code = run_guarded(
      [&options, &part](int front_fd) { return JobRunner(options.runner, part, front_fd).run(); });
  if (code != 0) throw CLI::RuntimeError(code);
}

}  // namespace

void add_run_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "run", "Run a program as the ranks of a job, on this machine or on a host of a cluster");
  command->footer(kExamples);
  const auto options = std::make_shared<RunOptions>();
  add_run_options(*command, *options);
  command->callback([options] { run_job(*options); });
}

}  // namespace atp
