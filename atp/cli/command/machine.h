#pragma once

#include <cstdint>
#include <string>

// What a command asks of the machine that it runs on.

namespace atp {

// The most memory in bytes that this process may hope to get: what the machine has available, its
// control group's limit (a container's), and its own address space limit; the least of these. A
// limit that cannot be read is none. `root` is where /proc and /sys are, for tests.
std::uint64_t obtainable_memory(const std::string& root = "");

// The name of this machine's interface that has the address, "" if none has.
std::string interface_with(const std::string& address);

// Drawn by the kernel: for identities that must differ between starts and machines. Never 0.
std::uint64_t random_seed();

}  // namespace atp
