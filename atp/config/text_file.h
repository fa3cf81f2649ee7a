#pragma once

#include <string>

namespace atp {

// The whole file, at most 1 MiB of it. Throws FileError.
std::string read_text_file(const std::string& path);

}  // namespace atp
