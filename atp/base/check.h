#pragma once

// ATP_CHECK states an invariant of our own code. It is on in every build: a broken invariant means
// that no later answer can be trusted, so the process says where it broke and stops. It is never
// used for bad packets (those are dropped and counted) nor for the outside world (that is Result).

namespace atp {

[[noreturn]] void check_failed(const char* condition, const char* file, int line);

}  // namespace atp

#define ATP_CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::atp::check_failed(#condition, __FILE__, __LINE__))
