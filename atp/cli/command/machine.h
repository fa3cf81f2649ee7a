#pragma once

#include <cstdint>
#include <string>

// What commands need to know about the machine they run on.

namespace atp {

// How much memory this process can allocate, in bytes: the minimum of what the machine has
// available, the limit of its control group (a container's), and its own address space limit. A
// limit that cannot be read is ignored. `root` contains /proc and /sys, for tests.
std::uint64_t obtainable_memory(const std::string& root = "");

// The name of this machine's interface with the address; empty if there is none.
std::string interface_with(const std::string& address);

}  // namespace atp
