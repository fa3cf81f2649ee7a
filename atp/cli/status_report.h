#pragma once

#include <string>
#include <string_view>

#include "atp/cli/counter_report.h"
#include "atp/core/dataplane/switch_node.h"
#include "atp/core/server/server.h"

// What `atp status` says of a node, as JSON; docs/status.md lists the keys, which later versions
// only add to.

namespace atp {

std::string status_text_of(std::string_view role, std::string_view listen, const Server& server,
                           Instant now, const CounterSnapshot& counters);
std::string status_text_of(std::string_view role, std::string_view listen, const SwitchNode& node,
                           Instant now, const CounterSnapshot& counters);

}  // namespace atp
