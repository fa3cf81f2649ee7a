#pragma once

#include <string>
#include <string_view>

#include "atp/base/result.h"
#include "atp/config/site/site.h"
#include "atp/config/text/yaml.h"

// The keys `links`, `racks` and `servers` of a cluster file (docs/cluster.md).

namespace atp {

// The racks of a cluster file, which must have them. `file` is only named in messages. An error is
// whatever cannot be started, routed or played: names and addresses that stand twice, hosts and
// racks that are not there, racks whose uplinks lead nowhere or in a circle.
Result<Site> parse_site(std::string_view text, const std::string& file);
Result<Site> read_site_file(const std::string& path);

// The same of a file that is read for more than its racks. Throws FileError.
Site read_site(const YamlMap& cluster);

// A cluster file's outermost map, in which no key is unknown. Throws FileError.
YamlMap cluster_map(const YamlNode& root, const std::string& file);

}  // namespace atp
