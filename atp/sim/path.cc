#include "atp/sim/path.h"

#include <algorithm>

namespace atp::sim {
namespace {

Duration up_to(Duration most, Random& random) {
  if (most.count() <= 0) return Duration{0};
  return Duration{
      static_cast<Duration::rep>(random.below(static_cast<std::uint64_t>(most.count()) + 1))};
}

}  // namespace

Fate Path::send(Instant now, Random& random, FaultCounters& counters) {
  Fate fate;
  if (lost(random, counters)) return fate;
  fate.arrive(arrival(now, random, counters));
  if (faults_.duplicate > 0 && random.chance(faults_.duplicate)) {
    counters.add(Fault::kDuplicate);
    fate.arrive(arrival(now, random, counters));
  }
  return fate;
}

void Path::heal() {
  faults_ = PathFaults{};
  in_burst_ = false;
  clogged_until_ = Instant{};
}

bool Path::lost(Random& random, FaultCounters& counters) {
  if (in_burst_ && random.chance(faults_.burst_end)) in_burst_ = false;
  if (!in_burst_ && faults_.burst_begin > 0) in_burst_ = random.chance(faults_.burst_begin);
  if (in_burst_) {
    counters.add(Fault::kBurstLoss);
    return true;
  }
  if (faults_.loss > 0 && random.chance(faults_.loss)) {
    counters.add(Fault::kLoss);
    return true;
  }
  return false;
}

Instant Path::arrival(Instant now, Random& random, FaultCounters& counters) {
  Instant when = now;
  if (clogged_until_ > now) {
    counters.add(Fault::kClog);
    when = clogged_until_;
  }
  when += delay_.base + up_to(delay_.jitter, random);
  if (faults_.held_back > 0 && random.chance(faults_.held_back)) {
    counters.add(Fault::kDelay);
    when += up_to(faults_.held_back_max, random);
  }
  return when;
}

}  // namespace atp::sim
