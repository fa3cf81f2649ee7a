#include "atp/cli/run_options.h"

#include <limits>

#include "atp/base/rank_set.h"
#include "atp/cli/number_check.h"
#include "atp/config/site.h"
#include "atp/wire/packet.h"

namespace atp {
namespace {

void add_common_options(CLI::App& command, RunOptions& options) {
  command
      .add_option("--values", options.values, "Values a fragment (default: what the way carries)")
      ->type_name("K")
      ->check(CLI::Range(1, ATP_VALUES_MAX));
  command
      .add_option("--stats-dir", options.stats_folder,
                  "Folder for the counters of switches and servers, as JSON lines")
      ->type_name("DIR");
  command.add_option("--stats-interval", options.stats_interval_s, "Seconds between two lines")
      ->type_name("SEC")
      ->check(number_between(0.01, 86400))
      ->capture_default_str();
  command
      .add_option("--grace", options.runner.grace_s,
                  "Seconds that the other ranks have to end when one has failed")
      ->type_name("SEC")
      ->check(number_between(0, 86400))
      ->capture_default_str();
  command.add_flag("--tag-output", options.runner.tag_output,
                   "Put the rank before each line of output");
  command
      .add_option("command", options.runner.command,
                  "Program to run as the ranks, with its arguments; with --cluster it may be left "
                  "out: then the host's switches and servers run until a signal ends them")
      ->type_name("CMD...");
}

// Of a job that has this machine to itself; a cluster file says these things in its own way.
void add_local_options(CLI::App& command, RunOptions& options, CLI::Option* cluster) {
  command.add_option("-n,--ranks", options.ranks, "Number of ranks, all on this machine")
      ->type_name("N")
      ->check(CLI::Range(std::size_t{1}, kMaxRanks))
      ->excludes(cluster);
  CLI::Option* servers = command
                             .add_option("--servers", options.servers,
                                         "Number of servers, over which the tensors are spread")
                             ->type_name("N")
                             ->check(CLI::Range(1u, kMostServers))
                             ->capture_default_str()
                             ->excludes(cluster);
  command
      .add_flag("--servers-inside", options.servers_inside,
                "As many servers as ranks, each in the process of one (ATP_OWN_SERVER)")
      ->excludes(servers)
      ->excludes(cluster);
  command
      .add_flag("--no-switch", options.without_switch, "Only a server: ranks send straight to it")
      ->excludes(cluster);
  command.add_option("--aggregators", options.aggregators, "Of the switch (default: its own)")
      ->type_name("N")
      ->check(CLI::Range(1u, 1u << 24))
      ->excludes(cluster);
}

void add_cluster_options(CLI::App& command, RunOptions& options, CLI::Option* cluster) {
  const CLI::Range word32(std::uint32_t{0}, std::numeric_limits<std::uint32_t>::max());
  command
      .add_option("--host", options.host,
                  "Which of the file's hosts this machine is (default: by its addresses)")
      ->type_name("NAME")
      ->needs(cluster);
  command
      .add_option("--hosts", options.hosts,
                  "The job's hosts, in the order of their ranks, with commas between (default: all "
                  "that have ranks)")
      ->type_name("NAME,NAME,…")
      ->needs(cluster);
  command
      .add_option("--ranks-per-host", options.ranks_per_host,
                  "Ranks on each of them (default: as the file says)")
      ->type_name("N")
      ->check(CLI::Range(std::size_t{1}, kMaxRanks))
      ->needs(cluster);
  command
      .add_flag("--services", options.with_services,
                "With a command: start the host's switches and servers too, and end them with it")
      ->needs(cluster);
  command
      .add_option("--job", options.job,
                  "The job's number, the same on its hosts; jobs at the "
                  "same time differ in it")
      ->type_name("N")
      ->check(word32)
      ->needs(cluster)
      ->capture_default_str();
  command
      .add_option("--incarnation", options.incarnation,
                  "Number of the job's start, the same on its hosts and new each time (default: of "
                  "a job on one host a random one; torch agrees on its own)")
      ->type_name("N")
      ->check(word32)
      ->needs(cluster);
  command
      .add_option("--master-port", options.master_port,
                  "TCP port of rank 0's host for torch's store (default: 29500 + job mod 1000)")
      ->type_name("PORT")
      ->check(CLI::Range(1, 65535))
      ->needs(cluster);
}

}  // namespace

void add_run_options(CLI::App& command, RunOptions& options) {
  CLI::Option* cluster =
      command
          .add_option("--cluster", options.cluster_file,
                      "Cluster file: start what it gives to this host (docs/cluster.md)")
          ->type_name("FILE");
  add_local_options(command, options, cluster);
  add_cluster_options(command, options, cluster);
  add_common_options(command, options);
}

}  // namespace atp
