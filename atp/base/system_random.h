#pragma once

#include <cstdint>

namespace atp {

// From the kernel, for identities that must differ between starts and machines. Never 0.
std::uint64_t random_seed();

}  // namespace atp
