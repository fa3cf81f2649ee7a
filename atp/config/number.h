#pragma once

#include <optional>
#include <string>
#include <string_view>

// Numbers as they stand in files, whatever the locale: the whole text is one, or it is none.

namespace atp {

std::optional<double> parse_number(std::string_view text);  // finite
std::optional<long long> parse_integer(std::string_view text);

// "a whole number from 1 to 64", what a message expects.
std::string count_text(long long least, long long most);

}  // namespace atp
