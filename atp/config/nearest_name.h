#pragma once

#include <span>
#include <string>
#include <string_view>

// Help for a misspelt name: the known one that is nearest by edits, if it is near at all.

namespace atp {

// Empty when nothing is near: more than a third of the letters would have to change.
std::string_view nearest_name(std::string_view name, std::span<const std::string_view> known);

// "a, b or c"
std::string listed(std::span<const std::string_view> names);

// What to do about an unknown name: "did you mean bandwidth?", else the list of what there is.
std::string hint(std::string_view name, std::span<const std::string_view> known);

}  // namespace atp
