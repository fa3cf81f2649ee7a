#include "atp/config/link_reader.h"

#include "atp/config/quantity.h"

namespace atp {

SiteLink read_link(const YamlMap& map, const SiteLink& otherwise) {
  SiteLink link = otherwise;
  if (const auto bandwidth = map.find("bandwidth")) link.bandwidth = read_bandwidth(*bandwidth);
  if (const auto latency = map.find("latency")) link.latency_s = read_duration(*latency);
  return link;
}

void check_bandwidth(const SiteLink& link, const Place& place, std::string_view kind) {
  if (link.bandwidth > 0) return;
  throw FileError(place, "its bandwidth is missing, expected " + std::string(kBandwidthExpected) +
                             "; add it here, or links." + std::string(kind) + " for all");
}

DefaultLinks read_default_links(const YamlMap& cluster) {
  DefaultLinks defaults;
  const auto links = cluster.find("links");
  if (!links) return defaults;
  const YamlMap map = links->map({"host", "rack", "rank"},
                                 "the usual links, by kind: {host: {bandwidth, latency}}");
  const auto read = [&map](std::string_view kind, SiteLink& link) {
    const auto value = map.find(kind);
    if (value) link = read_link(value->map({"bandwidth", "latency"}, "{bandwidth, latency}"), {});
  };
  read("host", defaults.host);
  read("rack", defaults.rack);
  read("rank", defaults.rank);
  return defaults;
}

}  // namespace atp
