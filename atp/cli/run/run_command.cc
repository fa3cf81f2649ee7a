#include <fmt/core.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "atp/base/rank_set.h"
#include "atp/base/variables.h"
#include "atp/cli/command/command.h"
#include "atp/cli/command/log.h"
#include "atp/cli/run/guard.h"
#include "atp/cli/run/job_runner.h"
#include "atp/cli/run/run_options.h"
#include "atp/config/site/site.h"
#include "atp/driver/keys/key_file.h"
#include "atp/wire/packet.h"

namespace atp {
namespace {

constexpr const char* kRunExamples = R"(Examples:
  atp run -n 4 -- python train.py --epochs 2
      run 4 ranks that sum in shared memory, with torchrun's variables, ATP_JOB and ATP_INCARNATION
  atp run -n 4 --switch -- python train.py
      sum through a switch and a server on this machine; also sets ATP_ROUTE
  atp run -n 4 --tag-output -- sh -c 'echo $RANK of $WORLD_SIZE'
      prefix each output line with its rank
  atp run -n 8 --values 350 --stats-dir out -- atp bench allreduce
      use Ethernet-sized fragments; write counters to out/switch.jsonl and out/server.jsonl
  atp run -n 4 --servers 2 -- atp bench allreduce
      use two servers, each for a part of every large tensor
  atp run -n 4 --lanes 2 -- atp bench allreduce
      use two switches with a server each, on separate cores
  atp run -n 4 --colocated-servers -- python train.py
      use four colocated servers: one in each rank's process
  atp run -n 4 --switch --key new -- python train.py
      tag all packets with a key made for this run
  atp run --cluster cluster.yaml --host a0
      run the switches and servers of host a0 until a signal ends them
  atp run --cluster cluster.yaml --host a1 -- python train.py
      run the ranks of host a1, in a job over all hosts of the file
  atp run --cluster cluster.yaml --host a1 --hosts a1,b1 --job 7 --incarnation 3 -- ./program
      run the ranks of host a1 in job 7, over two of the hosts
Exit code: the exit code of the first rank that failed (128 + signal if killed, 127 if CMD is not found).)";

// Options for every job.
void add_common_options(const Command& command, RunOptions& options) {
  command
      .add_option("--values", options.values,
                  "Maximum values per fragment (default: what the path MTU allows)")
      .type_name("K")
      .in_range(1, ATP_VALUES_MAX);
  command
      .add_option("--key", options.key_file,
                  "File with the key of the job's tenant, with which its packets are tagged (see "
                  "`atp key`); without CMD, the file with the keys of all tenants, as for `atp "
                  "switch --keys`; new: a key for this run alone, on one machine")
      .type_name("FILE");
  command
      .add_option("--stats-dir", options.stats_folder,
                  "Write the counters of switches and servers into this folder, as JSON lines")
      .type_name("DIR");
  command
      .add_option("--stats-interval", options.stats_interval_s, "Seconds between lines of counters")
      .type_name("SEC")
      .number_between(0.01, 86400)
      .show_default();
  command
      .add_option(
          "--grace", options.runner.grace_s,
          "Seconds that the other ranks get to exit after one has failed, before a signal ends "
          "them")
      .type_name("SEC")
      .number_between(0, 86400)
      .show_default();
  command.add_flag("--tag-output", options.runner.tag_output,
                   "Prefix each output line with its rank");
  command
      .add_option("command", options.runner.command,
                  "Program that each rank runs, with its arguments; with --cluster and no CMD, the "
                  "host's switches and servers run until a signal ends them")
      .type_name("CMD");
}

// Options for a job on this machine alone; a cluster file has its own keys for them.
void add_local_options(const Command& command, RunOptions& options, Option cluster) {
  command
      .add_option("-n,--ranks,--nproc-per-node", options.ranks,
                  "Number of ranks, all on this machine")
      .type_name("N")
      .in_range(std::size_t{1}, kMaxRanks)
      .excludes(cluster);
  Option servers = command
                       .add_option("--servers", options.servers,
                                   "Number of servers, over which tensors are spread")
                       .type_name("N")
                       .in_range(1u, kMaxServers)
                       .show_default()
                       .excludes(cluster);
  Option lanes =
      command
          .add_option("--lanes", options.lanes,
                      "Number of switches, each with its own server and core, over which "
                      "tensors are spread")
          .type_name("N")
          .in_range(1u, kMaxServers)
          .show_default()
          .excludes(servers)
          .excludes(cluster);
  command
      .add_flag("--colocated-servers", options.colocated_servers,
                "Run a server in each rank's process, colocated (ATP_COLOCATED_SERVER)")
      .excludes(servers)
      .excludes(lanes)
      .excludes(cluster);
  Option with_switch =
      command
          .add_flag("--switch", options.with_network,
                    "Sum through a switch and a server; without this or another network option, "
                    "the ranks sum in shared memory")
          .excludes(cluster);
  Option aggregators = command
                           .add_option("--aggregators", options.aggregators,
                                       "Aggregators of the switch (default: as for `atp switch`)")
                           .type_name("N")
                           .in_range(1u, 1u << 24)
                           .excludes(cluster);
  command
      .add_flag("--no-switch", options.without_switch,
                "Start only a server; ranks send straight to it")
      .excludes(with_switch)
      .excludes(aggregators)
      .excludes(cluster);
}

void add_cluster_options(const Command& command, RunOptions& options, Option cluster) {
  constexpr std::uint32_t kMaxWord = std::numeric_limits<std::uint32_t>::max();
  command
      .add_option("--host", options.host,
                  "This machine's name in the file (default: found by its addresses)")
      .type_name("NAME")
      .needs(cluster);
  command
      .add_option("--hosts", options.hosts,
                  "Comma-separated hosts of the job, in rank order (default: all "
                  "that have ranks)")
      .type_name("NAME,NAME,...")
      .not_empty()
      .needs(cluster);
  command
      .add_option("--ranks-per-host", options.ranks_per_host,
                  "Ranks per host (default: as in the file)")
      .type_name("N")
      .in_range(std::size_t{1}, kMaxRanks)
      .needs(cluster);
  command
      .add_flag("--services", options.with_services,
                "With CMD: also start the host's switches and servers, and stop them afterwards")
      .needs(cluster);
  command
      .add_option("--status-from", options.status_from,
                  "Networks whose hosts may query the status of the host's switches and servers, "
                  "with `atp status` and `atp view` (default: this host only)")
      .type_name("CIDR")
      .needs(cluster);
  command
      .add_option("--drain-from", options.drain_from,
                  "Networks whose hosts may make the host's switches and servers drain with `atp "
                  "drain`, and query their status (default: root and the user that runs them, on "
                  "this host)")
      .type_name("CIDR")
      .needs(cluster);
  command
      .add_option("--job", options.job,
                  "Job number, the same on all hosts of the job; concurrent jobs need different "
                  "ones")
      .type_name("N")
      .in_range(0U, kMaxWord)
      .needs(cluster)
      .show_default();
  command
      .add_option("--incarnation", options.incarnation,
                  "Number of this start of the job, the same on all its hosts and new each time "
                  "(default: random on one host; on several, torch chooses one, and other programs "
                  "need the option)")
      .type_name("N")
      .in_range(0U, kMaxWord)
      .needs(cluster);
  command
      .add_option("--master-port", options.master_port,
                  "TCP port on rank 0's host for torch's store (default: 29500 + job mod 1000)")
      .type_name("PORT")
      .in_range(1, 65535)
      .needs(cluster);
}

// What users of torchrun may look for; --nproc-per-node and --master-port exist.
void refuse_torchrun_options(const Command& command) {
  command.refuse("--nnodes", "a cluster file lists the hosts (--cluster FILE)");
  command.refuse("--node-rank,--node_rank,--local-addr,--local_addr",
                 "a host is found in the cluster file by its addresses, or by --host NAME");
  command.refuse("--master-addr,--master_addr",
                 "rank 0 is on the first host of the cluster file, or of --hosts");
  command.refuse(
      "--rdzv-endpoint,--rdzv_endpoint,--rdzv-backend,--rdzv_backend,--rdzv-id,--rdzv_id,"
      "--rdzv-conf,--rdzv_conf",
      "a cluster file lists the hosts (--cluster FILE), and --job and --incarnation "
      "tell its jobs apart");
  command.refuse("--standalone", "without --cluster, all ranks are on this machine");
  command.refuse("--max-restarts,--max_restarts", "a job that has failed is not started again");
  command.refuse("-m,--module", "CMD is a whole command: -- python -m MODULE");
  command.refuse("--no-python,--no_python", "CMD is a whole command, with or without python");
  command.refuse("-t,--tee,-r,--redirects,--log-dir,--log_dir",
                 "the ranks write to this command's output (--tag-output prefixes their lines)");
}

void add_run_options(const Command& command, RunOptions& options) {
  Option cluster = command
                       .add_option("--cluster", options.cluster_file,
                                   "Cluster file: run this host's part of it (docs/use/cluster.md)")
                       .type_name("FILE");
  add_local_options(command, options, cluster);
  add_cluster_options(command, options, cluster);
  add_common_options(command, options);
  refuse_torchrun_options(command);
}

// Ranks find the key through their environment, where a user may have named it instead of --key.
void use_key(RunOptions& options) {
  const char* const source = options.key_file.empty() ? "ATP_KEY_FILE" : "--key";
  const std::string given(value_of("ATP_KEY_FILE"));
  if (!options.key_file.empty()) {
    options.key_file = std::filesystem::absolute(options.key_file);
    if (!given.empty() && options.key_file != given) {
      log_warning("the key is that of --key instead of your ATP_KEY_FILE={}", given);
    }
    setenv("ATP_KEY_FILE", options.key_file.c_str(), 1);
  } else if (given.empty()) {
    return;
  } else {
    options.key_file = std::filesystem::absolute(given);
  }
  const auto need = [&](const auto& read) {
    if (!read) {
      throw CommandError(fmt::format("{}: {}", source, read.error().message), kWrongUsage);
    }
  };
  // Without ranks it is that of all tenants.
  if (options.runner.command.empty()) {
    need(read_key_file(options.key_file));
  } else {
    need(read_own_key(options.key_file));
  }
}

void run_job(RunOptions options) {
  outlive_readers();
  std::unique_ptr<TemporaryKey> made;
  if (options.key_file == "new") {
    Result<std::unique_ptr<TemporaryKey>> key = TemporaryKey::make("run");
    if (!key) throw CommandError("--key new: " + key.error().message);
    made = std::move(key).value();
    options.key_file = made->path();
  }
  use_key(options);
  const HostPlan plan = plan_of(options);
  if (!options.stats_folder.empty()) {
    std::error_code problem;
    std::filesystem::create_directories(options.stats_folder, problem);
    if (problem) {
      throw CommandError(
          fmt::format("cannot create --stats-dir {}: {}", options.stats_folder, problem.message()));
    }
  }
  const int code = run_guarded(
      [&options, &plan](int front_fd) { return JobRunner(options.runner, plan, front_fd).run(); });
  if (code != 0) throw CommandEnd(code);
}

}  // namespace

void add_run_command(const Command& program) {
  const Command command = program.add_command(
      "run", "Run a program as the ranks of a job, on this machine or on a host of a cluster");
  command.footer(kRunExamples);
  const auto options = std::make_shared<RunOptions>();
  add_run_options(command, *options);
  command.callback([options] { run_job(*options); });
}

}  // namespace atp
