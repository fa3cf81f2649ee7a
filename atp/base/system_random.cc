#include "atp/base/system_random.h"

#include <sys/random.h>

#include "atp/base/check.h"

namespace atp {

std::uint64_t random_seed() {
  std::uint64_t seed = 0;
  while (seed == 0) ATP_CHECK(getrandom(&seed, sizeof seed, 0) == sizeof seed);
  return seed;
}

}  // namespace atp
