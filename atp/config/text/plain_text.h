#pragma once

#include <string>
#include <string_view>

// Text that may be shown: well-formed UTF-8 without control characters. Names of a description
// reach terminals, JSON, SVG and comments; an escape sequence, a line feed or half a letter in them
// would break each in its own way.

namespace atp {

bool is_plain(std::string_view text);

// The same with a space for every control character and a question mark for every other byte that
// is no text.
std::string made_plain(std::string_view text);

}  // namespace atp
