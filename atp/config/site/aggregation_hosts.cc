#include "atp/config/site/aggregation_hosts.h"

#include <algorithm>
#include <limits>
#include <string>

namespace atp {
namespace {

// Equal bounds may differ by rounding.
constexpr double kRounding = 1e-9;

void remove_switches(Site& site) {
  for (SiteRack& rack : site.racks) rack.switch_node.reset();
}

bool has_switches(const Site& site) {
  return std::any_of(site.racks.begin(), site.racks.end(),
                     [](const SiteRack& rack) { return rack.switch_node.has_value(); });
}

double slowest_bandwidth(const Site& site, const JobPlacement& placement) {
  double slowest = std::numeric_limits<double>::infinity();
  for (const PlacedRanks& placed : placement.hosts) {
    slowest = std::min(slowest, site.hosts[placed.host].link.bandwidth);
  }
  return slowest;
}

std::vector<std::uint32_t> racks_of(const Site& site, const JobPlacement& placement) {
  std::vector<std::uint32_t> racks;
  for (const PlacedRanks& placed : placement.hosts) {
    const std::uint32_t rack = site.hosts[placed.host].rack;
    if (std::find(racks.begin(), racks.end(), rack) == racks.end()) racks.push_back(rack);
  }
  return racks;
}

// Replaces the file's servers by added hosts with a server each.
Site with_added(Site site, const AddedHosts& added, std::uint32_t count) {
  site.servers.clear();
  for (std::uint32_t i = 0; i < count; ++i) {
    site.servers.push_back({.host = static_cast<std::uint32_t>(site.hosts.size())});
    site.hosts.push_back({.name = "aggregation host " + std::to_string(i + 1),
                          .rack = added.racks[i % added.racks.size()],
                          .link = {.bandwidth = added.bandwidth}});
  }
  return site;
}

SiteBottleneck bound_of(const Site& site, const JobPlacement& placement) {
  return slowest_link(site, network_traffic(site, placement));
}

AggregationRow faster_row(const Site& site, const JobPlacement& placement, const AddedHosts& added,
                          std::uint32_t count) {
  Site with_hosts = with_added(site, added, count);
  AggregationRow row{.hosts = count};
  if (has_switches(site)) {
    row.with_switches = true;
    row.bound = bound_of(with_hosts, placement);
    remove_switches(with_hosts);
  }
  const SiteBottleneck alone = bound_of(with_hosts, placement);
  // Switches that do not help are left out.
  if (row.with_switches && row.bound.seconds_per_byte < alone.seconds_per_byte * (1 - kRounding)) {
    return row;
  }
  return {.hosts = count, .bound = alone};
}

// The smallest number of hosts, at least 1, such that its row and all later ones satisfy the
// condition.
template <class Condition>
std::optional<std::uint32_t> holds_from(const std::vector<AggregationRow>& rows,
                                        Condition condition) {
  std::optional<std::uint32_t> from;
  if (rows.empty()) return from;
  for (std::size_t i = rows.size() - 1; i > 0 && condition(rows[i]); --i) from = rows[i].hosts;
  return from;
}

}  // namespace

double AggregationForecast::ratio(const AggregationRow& row) const {
  return ring.seconds_per_byte / row.bound.seconds_per_byte;
}

bool AggregationForecast::is_line_rate(const AggregationRow& row) const {
  return row.bound.seconds_per_byte <= line_rate * (1 + kRounding);
}

std::optional<std::uint32_t> AggregationForecast::faster_from() const {
  return holds_from(rows, [this](const AggregationRow& row) { return is_faster(row); });
}

std::optional<std::uint32_t> AggregationForecast::line_rate_from() const {
  return holds_from(rows, [this](const AggregationRow& row) { return is_line_rate(row); });
}

const AggregationRow& AggregationForecast::best() const {
  const AggregationRow* best = &rows[1];
  for (std::size_t i = 2; i < rows.size(); ++i) {
    const double seconds = rows[i].bound.seconds_per_byte;
    if (seconds < best->bound.seconds_per_byte * (1 - kRounding)) best = &rows[i];
  }
  return *best;
}

AggregationForecast forecast_aggregation(const Site& site, const JobPlacement& placement,
                                         const AddedHosts& added, std::uint32_t most) {
  AggregationForecast forecast;
  if (placement.hosts.size() < 2) return forecast;
  const JobPlacement senders = summed_on_hosts(placement);
  forecast.line_rate = line_rate(site, senders);
  // Every rank is a member of the ring.
  forecast.ring = slowest_link(site, ring_traffic(site, placement));
  AddedHosts hosts = added;
  if (hosts.bandwidth == 0) hosts.bandwidth = slowest_bandwidth(site, placement);
  if (hosts.racks.empty()) hosts.racks = racks_of(site, placement);
  forecast.rows.push_back({.with_switches = has_switches(site), .bound = bound_of(site, senders)});
  for (std::uint32_t count = 1; count <= most; ++count) {
    forecast.rows.push_back(faster_row(site, senders, hosts, count));
  }
  return forecast;
}

std::optional<WiderLinks> links_to_beat_ring(const Site& site, const JobPlacement& placement,
                                             const AggregationForecast& forecast) {
  const double ring = forecast.ring.seconds_per_byte;
  const JobPlacement senders = summed_on_hosts(placement);
  const LinkTraffic traffic = network_traffic(site, senders);
  Site wider = site;
  WiderLinks links;
  for (std::uint32_t host = 0; host < site.hosts.size(); ++host) {
    const double needed = traffic.hosts[host] * traffic.framing / ring;
    const bool is_used = traffic.hosts[host] > 0 && placement.on_host(host) == nullptr;
    if (!is_used || needed < site.hosts[host].link.bandwidth) continue;
    links.hosts.push_back(host);
    links.bandwidth = std::max(links.bandwidth, needed);
    wider.hosts[host].link.bandwidth = std::numeric_limits<double>::infinity();
  }
  if (links.hosts.empty() || bound_of(wider, senders).seconds_per_byte >= ring) {
    return std::nullopt;
  }
  return links;
}

}  // namespace atp
