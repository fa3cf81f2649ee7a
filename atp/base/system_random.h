#pragma once

#include <cstdint>

namespace atp {

// From the kernel, for identities that must differ between starts and machines. Never 0. (The
// standard library's device needs a newer C library than the program.)
std::uint64_t random_seed();

}  // namespace atp
