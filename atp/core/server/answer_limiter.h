#pragma once

#include <array>
#include <cstdint>

#include "atp/base/rank_set.h"
#include "atp/base/time.h"
#include "atp/wire/control.h"
#include "atp/wire/endpoint.h"

// Holds back answers that nobody's membership earns (unknown job, versions): at most one to a
// sender, rank and reason within a pause. A table of fixed size, indexed by a seeded hash, so a
// flood from many addresses costs neither memory nor more than a bounded rate of answers; two
// senders that share an entry share its rate.

namespace atp {

class AnswerLimiter {
 public:
  explicit AnswerLimiter(std::uint64_t seed);

  bool allow(Instant now, Duration pause, const Endpoint& to, StatusCode code, Rank rank);

  bool operator==(const AnswerLimiter&) const = default;

 private:
  std::uint64_t seed_;
  std::array<Instant, 1024> last_;
};

}  // namespace atp
