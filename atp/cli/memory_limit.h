#pragma once

#include <cstdint>
#include <string>

namespace atp {

// The most memory in bytes that this process may hope to get: what the machine has available, its
// control group's limit (a container's), and its own address space limit; the least of these. A
// limit that cannot be read is none. `root` is where /proc and /sys are, for tests.
std::uint64_t obtainable_memory(const std::string& root = "");

}  // namespace atp
