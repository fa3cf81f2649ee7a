#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "atp/cli/command.h"
#include "atp/cli/prefix.h"
#include "atp/cli/random_seed.h"
#include "atp/cli/serve.h"
#include "atp/core/dataplane/switch_node.h"
#include "atp/driver/udp/address.h"

namespace atp {
namespace {

constexpr const char* kExamples = R"(Examples:
  atp switch
      on 127.0.0.1:5501, for servers on this machine
  atp switch --listen 10.0.0.1:5501 --upstream 10.0.0.0/24
      for servers and further switches in 10.0.0.0/24
  atp switch --listen 10.0.0.1:5501 --upstream 10.0.0.9 --stats switch.jsonl
      for one server; counters each second)";

struct SwitchOptions {
  ServeOptions serve{.listen = fmt::format("127.0.0.1:{}", ATP_DEFAULT_SWITCH_PORT)};
  std::uint32_t aggregators = SwitchConfig{}.aggregators;
  std::uint32_t values = 0;
  std::vector<std::string> upstream;
};

UpstreamPolicy upstream_policy(const SwitchOptions& options, const Endpoint& listen) {
  if (options.upstream.empty()) {
    if (is_loopback(listen)) return UpstreamPolicy(loopback_prefixes());
    throw CommandError(
        fmt::format("--upstream is required when listening on {}: a switch sends where workers ask "
                    "it to, so name the networks of the servers and switches above it, for example "
                    "--upstream 10.0.0.0/24",
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

void run_switch(const SwitchOptions& options) {
  const Endpoint listen = listen_endpoint(options.serve);
  SwitchConfig config;
  config.upstream = upstream_policy(options, listen);
  config.aggregators = options.aggregators;
  config.max_value_count = value_count(options.values, listen);
  config.seed = random_seed();
  const UdpSocket socket = open_socket(listen);
  SwitchNode node(config);
  spdlog::debug("{} aggregators of {} values", config.aggregators, config.max_value_count);
  serve("switch", socket, node, options.serve,
        {{"trees_made", "jobs appeared"},
         {"trees_dropped", "jobs ended"},
         {"leaves_relayed", "leaves passed on"},
         {"leases_ended", "ranks vanished"},
         {"unreachable", "ICMP errors"}},
        [&](CounterSnapshot& counters) {
          counters.emplace_back("aggregators_in_use", node.aggregators_in_use());
          counters.emplace_back("trees", node.trees());
        });
}

}  // namespace

void add_switch_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("switch", "Run a switch: it sums gradients on their way to the server");
  command->footer(kExamples);
  const auto options = std::make_shared<SwitchOptions>();
  add_serve_options(*command, options->serve);
  command->add_option("--aggregators", options->aggregators, "Fragments being summed at a time")
      ->type_name("N")
      ->check(CLI::Range(1u, 1u << 24))
      ->capture_default_str();
  command
      ->add_option("--values", options->values,
                   "Most values a fragment (default: what the interface's MTU carries)")
      ->type_name("K")
      ->check(CLI::Range(1, ATP_VALUES_MAX));
  command
      ->add_option("--upstream", options->upstream,
                   "Networks that it may send to: servers and switches above it (default when "
                   "listening on loopback: loopback)")
      ->type_name("CIDR");
  command->callback([options] { run_switch(*options); });
}

}  // namespace atp
