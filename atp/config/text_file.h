#pragma once

#include <cstddef>
#include <string>

namespace atp {

// A description has kilobytes; the matrix between a thousand devices, some MiB.
inline constexpr std::size_t kMaxFileBytes = std::size_t{8} << 20;

// The whole file, or standard input for "-". Throws FileError, also when there is more than
// kMaxFileBytes of it.
std::string read_text_file(const std::string& path);

// What messages call it: "standard input" for "-".
std::string input_name(const std::string& path);

}  // namespace atp
