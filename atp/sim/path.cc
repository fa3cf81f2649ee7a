#include "atp/sim/path.h"

#include <algorithm>

namespace atp::sim {
namespace {

Duration up_to(Duration most, Random& random) {
  if (most.count() <= 0) return Duration{0};
  return Duration{
      static_cast<Duration::rep>(random.below(static_cast<std::uint64_t>(most.count()) + 1))};
}

bool befalls(double probability, Fault fault, Random& random, FaultCounters& counters) {
  if (probability <= 0 || !random.chance(probability)) return false;
  counters.add(fault);
  return true;
}

}  // namespace

Fate Path::send(Instant now, Random& random, FaultCounters& counters) {
  Fate fate;
  if (lost(now, random, counters)) return fate;
  fate.set_out(wait(now, random, counters));
  if (befalls(faults_.duplicate, Fault::kDuplicate, random, counters)) {
    fate.set_out(wait(now, random, counters));
  }
  if (befalls(faults_.stale, Fault::kStale, random, counters)) {
    fate.set_out(up_to(faults_.stale_max, random));
  }
  fate.corrupted = befalls(faults_.corrupt, Fault::kCorruption, random, counters);
  fate.truncated =
      !fate.corrupted && befalls(faults_.truncate, Fault::kTruncation, random, counters);
  return fate;
}

void Path::heal() {
  faults_ = PathFaults{};
  in_burst_ = false;
  clogged_until_ = Instant{};
  cut_until_ = Instant{};
}

bool Path::lost(Instant now, Random& random, FaultCounters& counters) {
  if (cut_until_ > now) {
    counters.add(Fault::kOneWayLoss);
    return true;
  }
  if (in_burst_ && random.chance(faults_.burst_end)) in_burst_ = false;
  if (!in_burst_ && faults_.burst_begin > 0) in_burst_ = random.chance(faults_.burst_begin);
  if (in_burst_) {
    counters.add(Fault::kBurstLoss);
    return true;
  }
  return befalls(faults_.loss, Fault::kLoss, random, counters);
}

Duration Path::wait(Instant now, Random& random, FaultCounters& counters) {
  Duration length = up_to(jitter_, random);
  if (clogged_until_ > now) {
    counters.add(Fault::kClog);
    length += clogged_until_ - now;
  }
  if (befalls(faults_.held_back, Fault::kDelay, random, counters)) {
    length += up_to(faults_.held_back_max, random);
  }
  return length;
}

}  // namespace atp::sim
