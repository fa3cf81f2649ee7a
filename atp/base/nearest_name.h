#pragma once

#include <span>
#include <string_view>

// Suggestions for misspelt names.

namespace atp {

// The known name with the smallest edit distance; empty if more than a third of the letters would
// have to change.
std::string_view nearest_name(std::string_view name, std::span<const std::string_view> known);

}  // namespace atp
