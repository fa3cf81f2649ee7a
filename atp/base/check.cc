#include "atp/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace atp {

void check_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "atp: broken invariant: %s (%s:%d)\n", condition, file, line);
  std::abort();
}

}  // namespace atp
