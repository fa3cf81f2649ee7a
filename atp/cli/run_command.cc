#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "atp/base/rank_set.h"
#include "atp/cli/command.h"
#include "atp/cli/guard.h"
#include "atp/cli/job_runner.h"
#include "atp/wire/packet.h"

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
Exit code: that of the first rank that failed (128 + signal if killed, 127 if CMD is not found).)";

void run_job(const RunOptions& options) {
  if (!options.stats_folder.empty()) {
    std::error_code problem;
    std::filesystem::create_directories(options.stats_folder, problem);
    if (problem) {
      throw CommandError(
          fmt::format("cannot make --stats-dir {}: {}", options.stats_folder, problem.message()));
    }
  }
  const int code =
      run_guarded([&options](int front_fd) { return JobRunner(options, front_fd).run(); });
  if (code != 0) throw CLI::RuntimeError(code);
}

}  // namespace

void add_run_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "run", "Run a program as the ranks of a job, with a switch and a server on this machine");
  command->footer(kExamples);
  const auto options = std::make_shared<RunOptions>();
  command->add_option("-n,--ranks", options->ranks, "Number of ranks")
      ->type_name("N")
      ->required()
      ->check(CLI::Range(std::size_t{1}, kMaxRanks));
  command
      ->add_option("--servers", options->servers,
                   "Number of servers, over which the tensors are spread")
      ->type_name("N")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command->add_flag("--no-switch", options->without_switch,
                    "Only a server: ranks send straight to it");
  command
      ->add_option("--values", options->values,
                   "Values a fragment (default: what the loopback carries)")
      ->type_name("K")
      ->check(CLI::Range(1, ATP_VALUES_MAX));
  command->add_option("--aggregators", options->aggregators, "Of the switch (default: its own)")
      ->type_name("N")
      ->check(CLI::Range(1u, 1u << 24));
  command
      ->add_option("--stats-dir", options->stats_folder,
                   "Folder for the counters of switch and server, as JSON lines")
      ->type_name("DIR");
  command
      ->add_option("--grace", options->grace_s,
                   "Seconds that the other ranks have to end when one has failed")
      ->type_name("SEC")
      ->check(CLI::Range(0.0, 86400.0))
      ->capture_default_str();
  command->add_flag("--tag-output", options->tag_output, "Put the rank before each line of output");
  command->add_option("command", options->command, "Program to run, with its arguments")
      ->type_name("CMD...")
      ->required();
  command->callback([options] { run_job(*options); });
}

}  // namespace atp
