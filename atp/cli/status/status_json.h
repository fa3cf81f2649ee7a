#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "atp/cli/status/node_status.h"

namespace atp {

std::string to_json(NodeStatus status);  // one line
nlohmann::ordered_json to_json(RankDelay delay);

// One object per line of --stats: {"time_s": seconds since 1970, "role": "switch", "counters":
// {…}}.
std::string to_json_line(double time_s, std::string_view role, CounterSnapshot counters);

// The bytes come from the network and may be anybody's: texts are shortened and made plain, lists
// are shortened, and what names a rank that is too high is left out of them. Keys that are missing,
// as in the status of an earlier version, or unknown do not matter. Throws
// nlohmann::json::exception if a value has not the promised type, or the document is not a status.
NodeStatus status_from(const nlohmann::ordered_json& document);

}  // namespace atp
