#include "atp/cli/sim_site.h"

#include <fmt/format.h>

#include <cstdio>

#include "atp/cli/command.h"
#include "atp/cli/name_list.h"
#include "atp/cli/site_world.h"
#include "atp/config/cluster_file.h"
#include "atp/sim/world.h"

namespace atp {
namespace {

constexpr Duration kJoinLimit = std::chrono::seconds(30);

double to_ms(Duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

struct Played {
  sim::Outcome outcome;
  Duration joining{};
  Duration reducing{};
};

Played play(sim::World& world) {
  Played played;
  world.run(kJoinLimit, [&world] { return world.all(&sim::Application::joined); });
  const Instant begin = world.now();
  world.run_to_completion();
  played.joining = begin.time_since_epoch();
  played.reducing = world.now() - begin;
  sim::Tally tally;
  played.outcome = sim::run_to_the_end(world, tally);
  return played;
}

void print_servers(const Site& site, sim::World& world, std::uint64_t fragments) {
  std::uint64_t by_one_packet = 0;
  for (std::uint32_t i = 0; i < world.plan().servers; ++i) {
    const auto& counters = world.server(i).counters();
    by_one_packet += counters[ServerCounter::kFragmentsCompletedByOnePacket];
    fmt::print("server {}: {} gradients, {} bytes\n", site.hosts[site.servers[i].host].name,
               counters[ServerCounter::kGradientsReceived],
               counters[ServerCounter::kGradientBytesReceived]);
  }
  fmt::print("summed in the switches: {} of {} fragments, {:.2f}%\n", by_one_packet, fragments,
             100.0 * static_cast<double>(by_one_packet) / static_cast<double>(fragments));
}

}  // namespace

sim::Ending run_site(const SimSiteOptions& options) {
  const Site site = value_or_throw(read_site_file(options.file));
  const JobPlacement placement =
      value_or_throw(place_job(site, names_in(options.hosts), options.ranks_per_host));
  const sim::Plan plan =
      value_or_throw(read_or_error([&] { return world_of(site, placement, options.fragments); }));
  sim::World world(plan);
  const Played played = play(world);
  if (played.outcome.ending != sim::Ending::kHeld) {
    fmt::print(stderr, "{}", played.outcome.report);
  }
  const double bytes = 4.0 * kSiteValues * options.fragments;
  const double ms = to_ms(played.reducing);
  fmt::print("{} ranks on {} hosts, {} switches of {} aggregators, {} servers\n",
             placement.world_size, placement.hosts.size(), plan.switches,
             plan.switch_config.aggregators, plan.servers);
  fmt::print("all-reduce of {:.0f} bytes: {:.3f} ms, {:.3f} Gbit/s of sums ({:.3f} ms to join)\n",
             bytes, ms, bytes * 8 / ms / 1e6, to_ms(played.joining));
  print_servers(site, world, options.fragments);
  return played.outcome.ending;
}

}  // namespace atp
