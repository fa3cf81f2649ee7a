#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>

#include "atp/base/system_random.h"
#include "atp/cli/command/command.h"
#include "atp/cli/command/log.h"
#include "atp/cli/command/machine.h"
#include "atp/cli/node/lanes.h"
#include "atp/cli/node/prefix.h"
#include "atp/cli/node/serve.h"
#include "atp/core/dataplane/switch_node.h"
#include "atp/driver/udp/address.h"

namespace atp {
namespace {

constexpr const char* kSwitchExamples = R"(Examples:
  atp switch
      listen on 127.0.0.1:5501, for ranks and a server on this machine
  atp switch --listen 10.0.0.1:5501 --upstream 10.0.0.0/24
      allow servers and further switches in 10.0.0.0/24
  atp switch --listen 10.0.0.1:5501 --upstream 10.0.0.9 --stats switch.jsonl
      allow one server; log counters every second
  atp switch --listen 10.0.0.1:5700 --lanes 4 --upstream 10.0.0.9
      use four cores, on ports 5700 to 5703; ATP_ROUTE=10.0.0.1:5700-5703,10.0.0.9:5600-5603)";

struct SwitchOptions {
  ServeOptions serve{.listen = fmt::format("127.0.0.1:{}", ATP_DEFAULT_SWITCH_PORT)};
  std::uint32_t aggregators = SwitchConfig{}.aggregators;
  std::uint32_t places = SwitchConfig{}.places;
  std::vector<std::string> upstream;
  double uplink_gbit = 0;
  SharingConfig sharing;
  std::string weights;  // a cluster file; empty: no job has a weight of its own
};

UpstreamPolicy upstream_policy(const SwitchOptions& options, const Endpoint& listen) {
  if (options.upstream.empty()) {
    if (is_loopback(listen)) return UpstreamPolicy(loopback_prefixes());
    throw CommandError(
        fmt::format("--upstream is required when listening on {}: a switch forwards to addresses "
                    "that workers name, so limit these to the networks of the servers and switches "
                    "above it, for example --upstream 10.0.0.0/24",
                    to_string(listen)),
        kWrongUsage);
  }
  std::vector<Prefix> allowed;
  for (const std::string& text : options.upstream) {
    const Result<Prefix> prefix = parse_prefix(text);
    if (!prefix) throw CommandError("--upstream " + prefix.error().message, kWrongUsage);
    allowed.push_back(prefix.value());
  }
  return UpstreamPolicy(std::move(allowed));
}

std::string gib_text(std::uint64_t bytes) {
  return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / (1 << 30));
}

// The switch touches all its memory at the start. If there is too little, the kernel would kill it
// without a message.
void check_memory(const SwitchConfig& config) {
  const std::uint64_t each = sizeof(atp_aggregator) + 4 * std::uint64_t{config.max_value_count};
  const std::uint64_t needed = config.aggregators * each;
  const std::uint64_t obtainable = obtainable_memory();
  if (needed < obtainable) return;
  throw CommandError(fmt::format(
      "--aggregators {} with {} values each need {} of memory, but {} is available: use at most "
      "--aggregators {}, or smaller fragments (--values)",
      config.aggregators, config.max_value_count, gib_text(needed), gib_text(obtainable),
      std::bit_floor(std::max<std::uint64_t>(obtainable / 2 / each, 1))));
}

void check_sharing(const SwitchOptions& options) {
  if (options.sharing.partitions <= options.aggregators) return;
  throw CommandError(
      fmt::format("--partition {} leaves no aggregators per region, because there are only {}: "
                  "use at most --partition {}, or more --aggregators",
                  options.sharing.partitions, options.aggregators, options.aggregators),
      kWrongUsage);
}

// Only jobs that share all aggregators have parts, about which weights decide.
void tell_what_has_no_effect(const SwitchOptions& options) {
  const bool has_regions = options.sharing.partitions > 0;
  if (has_regions && options.sharing.first_come) {
    log_warning("--first-come has no effect with --partition: each job has a region of its own");
  }
  if (options.weights.empty() || !(has_regions || options.sharing.first_come)) return;
  log_warning("--weights has no effect with {}: {}", has_regions ? "--partition" : "--first-come",
              has_regions ? "each job has a region of its own" : "jobs have no parts");
}

ServeEnd serve_one(const SwitchOptions& options) {
  check_sharing(options);
  tell_what_has_no_effect(options);
  const Endpoint listen = listen_endpoint(options.serve);
  SwitchConfig config;
  config.sharing = options.sharing;
  config.upstream = upstream_policy(options, listen);
  config.aggregators = options.aggregators;
  config.places = options.places;
  config.uplink_bits_per_s = static_cast<std::uint64_t>(options.uplink_gbit * 1e9);
  config.max_value_count = value_count(options.serve, listen);
  config.seed = random_seed();
  config.secret = {random_seed(), random_seed()};
  const auto keys = NodeKeys::open(options.serve.keys);
  if (keys) config.quotas = &keys->ring();
  const auto weights = NodeWeights::open(options.weights, keys ? &keys->ring() : nullptr);
  if (weights) config.quotas = weights.get();
  check_memory(config);
  const UdpSocket socket = open_socket(listen);
  SwitchNode node(config);
  log_debug("{} aggregators of {} values", config.aggregators, config.max_value_count);
  return serve("switch", socket, node, options.serve, keys.get(), weights.get(),
               {{"trees_made", "job appeared", "jobs appeared"},
                {"trees_dropped", "job ended", "jobs ended"},
                {"leaves_relayed", "LEAVE relayed", "LEAVEs relayed"},
                {"leases_ended", "rank lost", "ranks lost"},
                {"drop_refused", "JOIN refused", "JOINs refused"},
                {"process_stopped_ms", "millisecond in which this process was stopped",
                 "milliseconds in which this process was stopped"}},
               [&](CounterSnapshot& counters) {
                 counters.emplace_back("aggregators_in_use", node.aggregators_in_use());
                 counters.emplace_back("trees", node.trees());
               });
}

void run_switch(const SwitchOptions& options) {
  serve_in_lanes("switch", options.serve, [&options](const ServeOptions& lane) {
    SwitchOptions own = options;
    own.serve = lane;
    return serve_one(own);
  });
}

}  // namespace

void add_switch_command(const Command& program) {
  const Command command =
      program.add_command("switch", "Run a switch: it sums gradients on their way to the server");
  command.footer(kSwitchExamples);
  const auto options = std::make_shared<SwitchOptions>();
  add_serve_options(command, options->serve);
  command.add_option("--aggregators", options->aggregators, "Maximum fragments summed at a time")
      .type_name("N")
      .in_range(1u, 1u << 24)
      .show_default();
  command
      .add_option("--places", options->places,
                  "Number of aggregators among which a fragment finds a free one")
      .type_name("N")
      .in_range(1u, kMostPlaces)
      .show_default();
  command.add_flag("--first-come", options->sharing.first_come,
                   "Let a job hold whatever it finds free (default: no more than its part while "
                   "other jobs find none)");
  command
      .add_option("--partition", options->sharing.partitions,
                  "Divide the aggregators into N equal regions, one per job; a job without a free "
                  "region has no aggregators (default: all jobs share all aggregators)")
      .type_name("N")
      .in_range(1u, 1u << 24);
  command
      .add_option("--quota", options->sharing.quota,
                  "Maximum aggregators per job at a time (default: all)")
      .type_name("N")
      .in_range(1u, 1u << 24);
  command
      .add_option(
          "--weights", options->weights,
          "Cluster file whose key jobs gives weights to jobs: while aggregators are scarce, "
          "a job gets them by its weight (docs/use/cluster.md; default: 1 for each, or that of "
          "its tenant in --keys); SIGHUP makes the switch read it again")
      .type_name("FILE");
  command
      .add_option(
          "--upstream", options->upstream,
          "Networks of the servers and switches above, to which the switch may send (default: "
          "loopback if it listens there)")
      .type_name("CIDR");
  command
      .add_option("--uplink-rate", options->uplink_gbit,
                  "Uplink bandwidth in Gbit/s; sums that would wait there for over 1 ms are marked "
                  "as congested (default: unknown)")
      .type_name("GBIT")
      .number_between(0.001, 10000);
  command.callback([options] { run_switch(*options); });
}

}  // namespace atp
