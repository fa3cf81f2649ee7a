#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "experiments/papers/slot_pool/pool_packet.h"

// SwitchML's worker (NSDI '21, §3.5, Algorithm 3): one packet per slot is under way. The answer
// lets the slot's next chunk go; without one, the packet is repeated after a fixed time-out.

namespace slot_pool {

using Time = std::chrono::steady_clock::time_point;
using Duration = Time::duration;
using Send = std::function<void(const PoolPacket&)>;

struct WorkerCounters {
  std::uint64_t sent = 0;  // first transmissions
  std::uint64_t repeats = 0;
  std::uint64_t answers = 0;           // that were waited for
  std::uint64_t unneeded_answers = 0;  // of chunks that had been answered
  std::uint64_t repaired = 0;          // chunks answered after a repeat
  Duration repairs{};                  // from first transmission to answer, of those together
};

class PoolWorker {
 public:
  PoolWorker(std::uint32_t rank, std::uint32_t slots, Duration timeout, Send send);

  // Begins to sum a tensor in place; the last one must be done.
  void begin(Time now, std::span<std::int32_t> tensor);
  bool done() const { return answered_ == chunks_; }
  void handle_packet(Time now, const PoolPacket& packet);
  // When to call handle_timeout(), if anything is under way.
  std::optional<Time> next_timeout();
  void handle_timeout(Time now);
  const WorkerCounters& counters() const { return counters_; }

 private:
  struct Slot {
    std::optional<std::uint32_t> chunk;  // under way
    Time first_sent;
    std::uint32_t repeats = 0;
  };
  // All time-outs are equally long, so they end in the order in which they began. Those of packets
  // that have been answered are dropped when they come up.
  struct Timer {
    Time due;
    std::uint32_t chunk;
    std::uint32_t repeats;
  };

  Slot& slot(std::uint32_t chunk) { return slots_[slot_of(chunk, slot_count())]; }
  std::uint32_t slot_count() const { return static_cast<std::uint32_t>(slots_.size()); }
  std::span<std::int32_t> values_of(std::uint32_t chunk) const;
  void send_first(Time now, std::uint32_t chunk);
  void send(Time now, std::uint32_t chunk);

  const std::uint32_t rank_;
  const Duration timeout_;
  const Send send_;
  std::vector<Slot> slots_;
  std::deque<Timer> timers_;
  std::span<std::int32_t> tensor_;
  std::uint32_t first_ = 0;  // chunk of the tensor
  std::uint32_t chunks_ = 0;
  std::uint32_t answered_ = 0;
  WorkerCounters counters_;
};

}  // namespace slot_pool
