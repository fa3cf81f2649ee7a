#pragma once

#include <string>
#include <string_view>

// Text that is safe to show: well-formed UTF-8 without control characters. Names from a file reach
// terminals, JSON, SVG and comments, and an escape sequence, a line feed or a truncated character
// would break each of them differently.

namespace atp {

bool is_plain(std::string_view text);

// Replaces every control character by a space, and every other byte that is not text by a question
// mark.
std::string made_plain(std::string_view text);

}  // namespace atp
