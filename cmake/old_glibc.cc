// libstdc++ of Debian 12, linked statically, calls a function that glibc has had only since 2.36.
// Because it is defined here, it is not taken from the C library, and the program runs on systems
// with glibc 2.35, such as Ubuntu 22.04.
#include <cstdint>

#include "atp/base/system_random.h"

extern "C" std::uint32_t arc4random() noexcept {
  return static_cast<std::uint32_t>(atp::random_seed());
}
