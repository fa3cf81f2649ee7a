#include "atp/config/site/link_traffic.h"

#include <algorithm>

#include "atp/config/site/routes.h"

namespace atp {
namespace {

class Tally {
 public:
  Tally(const Site& site, double framing) : site_(site) {
    traffic_.hosts.resize(site.hosts.size());
    traffic_.uplinks.resize(site.racks.size());
    traffic_.framing = framing;
  }

  // Traffic in both directions. Inside a host it uses no link.
  void exchange(std::uint32_t from, std::uint32_t to, double tensors) {
    if (from == to) return;
    pass(from, to, tensors);
    traffic_.hosts[from] += tensors;
    traffic_.hosts[to] += tensors;
  }

  // Traffic in one direction. The hops of a ring leave a host and a rack as often as they enter it,
  // so half of an uplink's traffic is in each direction.
  void hop(std::uint32_t from, std::uint32_t to, double tensors) {
    if (from == to) return;
    pass(from, to, tensors / 2);
    traffic_.hosts[from] += tensors;
  }

  const LinkTraffic& traffic() const { return traffic_; }

 private:
  void pass(std::uint32_t from, std::uint32_t to, double tensors) {
    const std::uint32_t above = site_.hosts[from].rack, below = site_.hosts[to].rack;
    if (above == below) return;
    for (const std::uint32_t rack : uplinks_between(site_, above, below)) {
      traffic_.uplinks[rack] += tensors;
    }
  }

  const Site& site_;
  LinkTraffic traffic_;
};

// Adds the traffic of one server's part of the tensor.
void add_part(const Site& site, const JobPlacement& placement, std::uint32_t server, double part,
              Tally& tally) {
  const auto node_at = [&](const std::vector<std::uint32_t>& switches, std::size_t hop) {
    return hop < switches.size() ? site.racks[switches[hop]].switch_node->host
                                 : site.servers[server].host;
  };
  // By rack: whether its switch has sent its sum, which it does once for all its senders.
  std::vector<bool> has_sent(site.racks.size());
  std::optional<std::uint32_t> rack;
  std::vector<std::uint32_t> switches;
  for (const PlacedRanks& placed : placement.hosts) {
    if (rack != site.hosts[placed.host].rack) {
      rack = site.hosts[placed.host].rack;
      switches = switches_between(site, *rack, server);
    }
    // Each rank of the placement sends separately; summed_on_hosts() has one per host.
    tally.exchange(placed.host, node_at(switches, 0), part * placed.ranks);
    for (std::size_t hop = 0; hop < switches.size() && !has_sent[switches[hop]]; ++hop) {
      has_sent[switches[hop]] = true;
      tally.exchange(node_at(switches, hop), node_at(switches, hop + 1), part);
    }
  }
}

void take_slower(SiteBottleneck& slowest, const SiteBottleneck& link, double framing) {
  const double seconds = link.tensors * framing / link.bandwidth;
  // The first of links that are equally full, up to rounding.
  if (seconds <= slowest.seconds_per_byte * (1 + 1e-9)) return;
  slowest = link;
  slowest.seconds_per_byte = seconds;
}

}  // namespace

LinkTraffic network_traffic(const Site& site, const JobPlacement& placement) {
  Tally tally(site, kNetworkFraming);
  const double part = 1.0 / static_cast<double>(site.servers.size());
  for (std::uint32_t server = 0; server < site.servers.size(); ++server) {
    add_part(site, placement, server, part, tally);
  }
  return tally.traffic();
}

LinkTraffic ring_traffic(const Site& site, const JobPlacement& placement) {
  Tally tally(site, kRingFraming);
  const double volume = 2.0 * (placement.world_size - 1) / placement.world_size;
  for (std::size_t i = 0; i < placement.hosts.size(); ++i) {
    const PlacedRanks& next = placement.hosts[(i + 1) % placement.hosts.size()];
    tally.hop(placement.hosts[i].host, next.host, volume);
  }
  return tally.traffic();
}

SiteBottleneck slowest_link(const Site& site, const LinkTraffic& traffic) {
  SiteBottleneck slowest;
  for (std::uint32_t host = 0; host < traffic.hosts.size(); ++host) {
    if (traffic.hosts[host] == 0) continue;
    const SiteHost& at = site.hosts[host];
    check_bandwidth(at.link, at.place, "host");
    take_slower(slowest,
                {.host = host, .tensors = traffic.hosts[host], .bandwidth = at.link.bandwidth},
                traffic.framing);
  }
  for (std::uint32_t rack = 0; rack < traffic.uplinks.size(); ++rack) {
    if (traffic.uplinks[rack] == 0) continue;
    const SiteRack& at = site.racks[rack];
    check_bandwidth(at.uplink, at.place, "rack");
    take_slower(slowest,
                {.rack = rack, .tensors = traffic.uplinks[rack], .bandwidth = at.uplink.bandwidth},
                traffic.framing);
  }
  return slowest;
}

double line_rate(const Site& site, const JobPlacement& placement) {
  double seconds = 0;
  for (const PlacedRanks& placed : placement.hosts) {
    const SiteHost& host = site.hosts[placed.host];
    check_bandwidth(host.link, host.place, "host");
    seconds = std::max(seconds, placed.ranks * kNetworkFraming / host.link.bandwidth);
  }
  return seconds;
}

}  // namespace atp
