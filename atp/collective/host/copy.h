#pragma once

#include <cstddef>

namespace atp {

// memcpy() for pieces that are copied between a tensor and a segment. glibc's takes `rep movsb` for
// these, which on AMD's processors becomes four times as slow where the two addresses differ by
// little modulo 4096: here a tensor, of which malloc() begins a page 16 bytes late, and a row.
void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes);

}  // namespace atp
