#pragma once

#include <span>
#include <string_view>

#include "explore/cluster.h"

// Rules broken on purpose: an exploration that finds nothing means little unless it finds these.
// Each changes a node's state, or its packets, around the turn of the real node, so the product's
// sources remain unchanged.

namespace atp::explore {

std::span<const Bug> planted_bugs();
// Null if there is no bug of that name.
const Bug* find_bug(std::string_view name);

}  // namespace atp::explore
