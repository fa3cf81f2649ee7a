#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "atp/base/time.h"

// How a node that drains ends (`atp drain`): it says how many jobs are left whenever that changes,
// and stops when none has been left for a while. Has no clock: times are arguments.

namespace atp {

class Drain {
 public:
  // The last ranks of a job repeat their LEAVE until they hear that it has arrived. So an empty
  // node answers for a second more, in which they repeat it five times.
  static constexpr Duration kLinger = std::chrono::seconds(1);

  // Records the number of jobs. Returns what to log: "draining, 2 jobs left".
  std::optional<std::string> look(Instant now, std::size_t jobs);
  // Whether there has been no job for kLinger.
  bool is_over(Instant now) const { return empty_since_ && now >= *empty_since_ + kLinger; }

 private:
  std::optional<std::size_t> jobs_;
  std::optional<Instant> empty_since_;
};

}  // namespace atp
