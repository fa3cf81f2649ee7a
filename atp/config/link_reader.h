#pragma once

#include "atp/config/site.h"
#include "atp/config/yaml_reader.h"

// Links of a cluster file: {bandwidth, latency}, either of which may be left to the defaults that
// the key `links` gives for each kind of link.

namespace atp {

struct DefaultLinks {
  SiteLink host, rack, rank;
};

DefaultLinks read_default_links(const YamlMap& cluster);

// Refuses a link whose bandwidth the file does not say, as who reckons with it must. `kind` is that
// of the usual links: "host" or "rack".
void check_bandwidth(const SiteLink& link, const Place& place, std::string_view kind);

// What the map's keys `bandwidth` and `latency` say; else the default.
SiteLink read_link(const YamlMap& map, const SiteLink& otherwise);

}  // namespace atp
