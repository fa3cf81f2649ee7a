#pragma once

#include <string>

namespace atp {

// Writes the whole file; CommandError if that fails.
void write_output_file(const std::string& path, const std::string& text);

}  // namespace atp
