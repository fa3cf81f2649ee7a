#include "atp/config/site/expected_times.h"

#include <algorithm>
#include <sstream>

#include "atp/config/site/link_traffic.h"
#include "atp/config/site/routes.h"

namespace atp {
namespace {

// The time that a rank, switch or server takes to forward a packet, without its link's latency.
constexpr double kNodeSeconds = 30e-6;

double slowest_link_latency(const Site& site, const JobPlacement& placement) {
  double slowest = 0;
  for (const PlacedRanks& placed : placement.hosts) {
    slowest = std::max(slowest, site.hosts[placed.host].link.latency_s);
  }
  return slowest;
}

// Two round trips to the farthest server, because the blocks' exponents precede the values.
double network_latency(const Site& site, const JobPlacement& placement) {
  std::size_t most_nodes = 0;
  for (const PlacedRanks& placed : placement.hosts) {
    for (std::uint32_t server = 0; server < site.servers.size(); ++server) {
      const auto switches = switches_between(site, site.hosts[placed.host].rack, server);
      most_nodes = std::max(most_nodes, switches.size() + 1);
    }
  }
  const double link = slowest_link_latency(site, placement);
  return 4 * static_cast<double>(most_nodes) * (kNodeSeconds + 2 * link);
}

// Once around for the sums and once for the results, and both again for the exponents.
double ring_latency(const Site& site, const JobPlacement& placement) {
  const double link = slowest_link_latency(site, placement);
  return 4.0 * (placement.world_size - 1) * (kNodeSeconds + 2 * link);
}

bool says_bandwidths(const Site& site, const LinkTraffic& traffic) {
  for (std::size_t host = 0; host < traffic.hosts.size(); ++host) {
    if (traffic.hosts[host] > 0 && site.hosts[host].link.bandwidth == 0) return false;
  }
  for (std::size_t rack = 0; rack < traffic.uplinks.size(); ++rack) {
    if (traffic.uplinks[rack] > 0 && site.racks[rack].uplink.bandwidth == 0) return false;
  }
  return true;
}

}  // namespace

std::optional<ExpectedTimes> expected_times(const Site& site, const JobPlacement& placement,
                                            bool sums_on_hosts) {
  if (site.servers.empty() || placement.hosts.size() < 2) return std::nullopt;
  const LinkTraffic network =
      network_traffic(site, sums_on_hosts ? summed_on_hosts(placement) : placement);
  const LinkTraffic ring = ring_traffic(site, placement);
  if (!says_bandwidths(site, network) || !says_bandwidths(site, ring)) return std::nullopt;
  return ExpectedTimes{
      .network = {.latency_s = network_latency(site, placement),
                  .seconds_per_byte = slowest_link(site, network).seconds_per_byte},
      .ring = {.latency_s = ring_latency(site, placement),
               .seconds_per_byte = slowest_link(site, ring).seconds_per_byte}};
}

std::string to_text(const ExpectedTimes& times) {
  std::ostringstream text;
  text << "innetwork=" << times.network.latency_s << ',' << times.network.seconds_per_byte
       << ";ring=" << times.ring.latency_s << ',' << times.ring.seconds_per_byte;
  return text.str();
}

}  // namespace atp
