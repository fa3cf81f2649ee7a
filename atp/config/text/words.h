#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

// Single words of a file: which known name a misspelt one is meant to be, and which number it is.

namespace atp {

// The known name that is nearest by edits; empty when none is near: more than a third of the
// letters would have to change.
std::string_view nearest_name(std::string_view name, std::span<const std::string_view> known);

// "a, b or c"
std::string listed(std::span<const std::string_view> names);

// What to do about an unknown name: "did you mean bandwidth?", else the list of what there is.
std::string hint(std::string_view name, std::span<const std::string_view> known);

// Numbers as they stand in files, whatever the locale: the whole text is one, or it is none.
std::optional<double> parse_number(std::string_view text);  // finite
std::optional<long long> parse_integer(std::string_view text);

// "a whole number from 1 to 64", what a message expects.
std::string count_text(long long least, long long most);

}  // namespace atp
