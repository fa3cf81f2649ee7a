#pragma once

#include <span>
#include <string_view>

#include "models/cluster.h"

// Rules broken on purpose: an exploration that finds nothing shows little unless it finds these.
// Each changes what a node holds, or sends, around the turn of the real node, so the product's
// sources stay as they are.

namespace atp::models {

std::span<const Bug> planted_bugs();
// Null if there is none of that name.
const Bug* find_bug(std::string_view name);

}  // namespace atp::models
