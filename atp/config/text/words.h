#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

// Single words of a file: advice about unknown names, and numbers.

namespace atp {

// "a, b or c"
std::string listed(std::span<const std::string_view> names);

// Advice about an unknown name: "did you mean bandwidth?", else "use a, b or c".
std::string hint(std::string_view name, std::span<const std::string_view> known);

// Numbers in files, independent of the locale. The whole text must be a number.
std::optional<double> parse_number(std::string_view text);  // finite
std::optional<long long> parse_integer(std::string_view text);

// "a whole number from 1 to 64", for messages.
std::string count_text(long long least, long long most);

}  // namespace atp
