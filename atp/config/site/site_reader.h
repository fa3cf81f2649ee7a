#pragma once

#include <string>
#include <string_view>

#include "atp/base/result.h"
#include "atp/config/site/site.h"
#include "atp/config/text/yaml.h"

// The keys `links`, `racks`, `servers` and `jobs` of a cluster file (docs/use/cluster.md).

namespace atp {

// The racks of a cluster file, which must have some. `file` is used only in messages. Errors are
// duplicate names and addresses, unknown hosts and racks, and uplinks that lead nowhere or form a
// cycle.
Result<Site> parse_site(std::string_view text, const std::string& file);
Result<Site> read_site_file(const std::string& path);

// The same for a file that has already been parsed. Throws FileError.
Site read_site(const YamlMap& cluster);

// A name of letters, digits, '-', '_' and '.' only, because names appear in comma-separated lists
// and in file names. Throws FileError.
std::string read_name(const YamlValue& value);

// A cluster file's outermost map. Throws FileError if it has an unknown key.
YamlMap cluster_map(const YamlNode& root, const std::string& file);

}  // namespace atp
