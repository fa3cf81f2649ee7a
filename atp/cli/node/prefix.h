#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "atp/base/result.h"
#include "atp/core/topology/upstream.h"

namespace atp {

// Parses "10.0.0.0/8", "fd00::/8", or a bare address, which stands for that host alone.
Result<Prefix> parse_prefix(std::string_view text);

// The networks that an option lists. Throws a CommandError (wrong usage) that names the option.
std::vector<Prefix> networks_of(const std::string& option, const std::vector<std::string>& texts);

// 127.0.0.0/8 and ::1/128.
std::vector<Prefix> loopback_prefixes();

}  // namespace atp
