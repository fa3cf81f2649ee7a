#pragma once

#include <string>

#include "atp/cli/status/node_status.h"

namespace atp {

// A node's status as a short table for people.
std::string status_table(const NodeStatus& status);

// "draining, 2 jobs left"
std::string drain_text(std::size_t jobs);

}  // namespace atp
