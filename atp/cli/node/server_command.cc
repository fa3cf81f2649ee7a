#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>
#include <string>

#include "atp/base/system_random.h"
#include "atp/cli/command/command.h"
#include "atp/cli/command/log.h"
#include "atp/cli/command/machine.h"
#include "atp/cli/node/lanes.h"
#include "atp/cli/node/serve.h"
#include "atp/core/dataplane/switch_state.h"
#include "atp/core/server/server.h"

namespace atp {
namespace {

constexpr const char* kServerExamples = R"(Examples:
  atp server
      listen on 127.0.0.1:5500, for workers on this machine
  atp server --listen 10.0.0.9:5500
      listen on 10.0.0.9, for workers and switches on other hosts
  atp server --listen 127.0.0.1:0 --port-file server.address --stats server.jsonl
      listen on a free port, write the address to a file, and log counters every second
  atp server --listen 10.0.0.9:5600 --lanes 4
      use four cores, on ports 5600 to 5603)";

struct ServerOptions {
  ServeOptions serve{.listen = fmt::format("127.0.0.1:{}", ATP_DEFAULT_SERVER_PORT)};
  std::uint32_t window = ServerConfig{}.wmax;
  double lease_s = 5;
  std::string placement = "rehash";
  std::optional<std::uint32_t> aggregators;
};

Placement placement_of(const ServerOptions& options) {
  if (options.placement == "linear") {
    return {static_cast<std::uint16_t>(options.aggregators.value_or(SwitchConfig{}.aggregators))};
  }
  if (!options.aggregators) return {};
  throw CommandError(
      fmt::format("--aggregators requires --placement linear, found {}; remove it, or give it to "
                  "the switch",
                  options.placement),
      kWrongUsage);
}

ServeEnd serve_one(const ServerOptions& options) {
  const Endpoint listen = listen_endpoint(options.serve);
  if (!std::has_single_bit(options.window)) {
    throw CommandError(
        fmt::format("--window {} is not a power of two; use {} or {}", options.window,
                    std::bit_floor(options.window), std::bit_ceil(options.window)),
        kWrongUsage);
  }
  ServerConfig config;
  config.rehash = options.placement == "rehash";
  config.placement = placement_of(options);
  config.boot_id = random_seed();
  config.secret = {random_seed(), random_seed()};
  config.seed = random_seed();
  const auto keys = NodeKeys::open(options.serve.keys);
  if (keys) config.quotas = &keys->ring();
  config.wmax = options.window;
  config.timing.lease = Duration(static_cast<Duration::rep>(options.lease_s * 1e9));
  config.max_value_count = value_count(options.serve, listen);
  // Jobs touch their memory later, and a container's kernel then kills whoever has too much.
  config.memory_limit_bytes = static_cast<std::size_t>(
      std::min<std::uint64_t>(config.memory_limit_bytes, obtainable_memory() / 4 * 3));
  const UdpSocket socket = open_socket(listen);
  Server node(config);
  log_debug("window {} packets, {} values", config.wmax, config.max_value_count);
  return serve("server", socket, node, options.serve, keys.get(), nullptr,
               {{"jobs_made", "job appeared", "jobs appeared"},
                {"jobs_ended", "job ended", "jobs ended"},
                {"ranks_lost", "rank lost", "ranks lost"},
                {"status_detached", "notice of detached ranks", "notices of detached ranks"},
                {"status_operation_mismatch", "notice of ranks that disagree about operations",
                 "notices of ranks that disagree about operations"},
                {"drop_refused", "JOIN refused", "JOINs refused"},
                {"process_stopped_ms", "millisecond in which this process was stopped",
                 "milliseconds in which this process was stopped"}},
               [](CounterSnapshot&) {});
}

void run_server(const ServerOptions& options) {
  serve_in_lanes("server", options.serve, [&options](const ServeOptions& lane) {
    ServerOptions own = options;
    own.serve = lane;
    return serve_one(own);
  });
}

}  // namespace

void add_server_command(const Command& program) {
  const Command command =
      program.add_command("server", "Run a parameter server: the root that completes every sum");
  command.footer(kServerExamples);
  const auto options = std::make_shared<ServerOptions>();
  add_serve_options(command, options->serve);
  command
      .add_option("--window", options->window,
                  "Maximum packets in flight per stream; a power of two")
      .type_name("N")
      .in_range(2u, 65536u)
      .show_default();
  command
      .add_option(
          "--lease", options->lease_s,
          "Seconds of silence after which the server considers a rank lost, and a rank considers "
          "the server lost")
      .type_name("SEC")
      .number_between(3, 3600)
      .show_default();
  command
      .add_option("--placement", options->placement,
                  "How fragments are assigned to aggregators: by a hash that changes after a "
                  "collision (rehash), by a fixed hash (hash), or in order (linear); the last two "
                  "are for comparison")
      .one_of({"rehash", "hash", "linear"})
      .show_default();
  command
      .add_option(
          "--aggregators", options->aggregators,
          fmt::format("Aggregators per switch, or per region: linear placement cycles through "
                      "them (default: {})",
                      SwitchConfig{}.aggregators))
      .type_name("N")
      .in_range(1u, 65535u);
  command.callback([options] { run_server(*options); });
}

}  // namespace atp
