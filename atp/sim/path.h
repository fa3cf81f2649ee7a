#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "atp/base/random.h"
#include "atp/base/time.h"
#include "atp/sim/faults.h"

namespace atp::sim {

// What becomes of one packet: how long each of its copies is held back before it sets out; none if
// it was lost.
struct Fate {
  std::array<Duration, 3> waits{};
  std::size_t copies = 0;
  bool corrupted = false;  // the first copy
  bool truncated = false;  // the first copy

  void set_out(Duration wait) { waits[copies++] = wait; }
};

// The faults on the way from one node to another, in that direction. It decides the fate of each
// packet from the network's random numbers and remembers a run of losses and an outage.
class Path {
 public:
  Path() = default;
  Path(const PathFaults& faults, Duration jitter) : faults_(faults), jitter_(jitter) {}

  Fate send(Instant now, Random& random, FaultCounters& counters);
  void clog(Instant until) { clogged_until_ = std::max(clogged_until_, until); }
  void cut(Instant until) { cut_until_ = std::max(cut_until_, until); }
  void heal();

 private:
  bool lost(Instant now, Random& random, FaultCounters& counters);
  Duration wait(Instant now, Random& random, FaultCounters& counters);

  PathFaults faults_;
  Duration jitter_{};
  bool in_burst_ = false;
  Instant clogged_until_{};
  Instant cut_until_{};
};

}  // namespace atp::sim
