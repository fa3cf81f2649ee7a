#pragma once

#include "atp/config/site.h"
#include "atp/config/yaml_reader.h"

// The keys `links`, `racks` and `servers` of a cluster file (docs/cluster.md).

namespace atp {

// Throws FileError for whatever cannot be started, routed or played: names and addresses that stand
// twice, hosts and racks that are not there, racks whose uplinks lead nowhere or in a circle.
Site read_site(const YamlMap& cluster);

}  // namespace atp
