#pragma once

// ATP_CHECK states an invariant of our own code. It is on in every build: after a broken invariant
// no later result can be trusted, so the process prints where it broke and aborts. Never use it for
// bad packets (they are dropped and counted) or for failures of the outside world (use Result).

namespace atp {

[[noreturn]] void check_failed(const char* condition, const char* file, int line);

}  // namespace atp

#define ATP_CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::atp::check_failed(#condition, __FILE__, __LINE__))
