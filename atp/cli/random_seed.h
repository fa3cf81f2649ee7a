#pragma once

#include <sys/random.h>

#include <cstdint>

#include "atp/base/check.h"

namespace atp {

// Drawn by the kernel: for identities that must differ between starts and machines.
inline std::uint64_t random_seed() {
  std::uint64_t seed = 0;
  while (seed == 0) ATP_CHECK(getrandom(&seed, sizeof seed, 0) == sizeof seed);
  return seed;
}

}  // namespace atp
