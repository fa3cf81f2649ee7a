#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "atp/base/random.h"
#include "atp/base/time.h"
#include "atp/sim/faults.h"

namespace atp::sim {

// When the copies of one packet arrive; none if it was lost.
struct Fate {
  std::array<Instant, 2> arrivals{};
  std::size_t copies = 0;

  void arrive(Instant when) { arrivals[copies++] = when; }
};

// The path from one node to another, in that direction. It decides the fate of each packet from
// the network's random numbers and remembers a run of losses and a clog.
class Path {
 public:
  Path() = default;
  Path(const PathDelay& delay, const PathFaults& faults) : delay_(delay), faults_(faults) {}

  Fate send(Instant now, Random& random, FaultCounters& counters);
  void clog(Instant until) { clogged_until_ = std::max(clogged_until_, until); }
  void heal();

 private:
  bool lost(Random& random, FaultCounters& counters);
  Instant arrival(Instant now, Random& random, FaultCounters& counters);

  PathDelay delay_;
  PathFaults faults_;
  bool in_burst_ = false;
  Instant clogged_until_{};
};

}  // namespace atp::sim
