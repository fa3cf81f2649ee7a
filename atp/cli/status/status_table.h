#pragma once

#include <string>

#include "atp/cli/status/node_status.h"

namespace atp {

// A node's status as a short table for people.
std::string status_table(const NodeStatus& status);

// "rank 2 (10.0.1.2) in all_reduce #17 (1,000 values)", "ranks 3 …". Names at most so many.
std::string stuck_text(const StuckJob& stuck, std::size_t most = kMaxRanks);

// "draining, 2 jobs left"
std::string drain_text(std::size_t jobs);

}  // namespace atp
