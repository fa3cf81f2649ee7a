#pragma once

#include <string_view>

#include "atp/base/result.h"
#include "atp/core/topology/upstream.h"

namespace atp {

// Parses "10.0.0.0/8", "fd00::/8", or a bare address, which stands for that host alone.
Result<Prefix> parse_prefix(std::string_view text);

// 127.0.0.0/8 and ::1/128.
std::vector<Prefix> loopback_prefixes();

}  // namespace atp
