#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "experiments/papers/slot_pool/pool_packet.h"

// SwitchML's switch (NSDI '21, §3.5, Algorithm 4): a static pool of slots in two versions. A slot's
// last sum stays in its other version until every worker has shown, by using the slot again, that
// it has the sum.

namespace slot_pool {

enum class Verdict : std::uint8_t {
  kDrop,
  kAnswerAll,  // the slot is complete: its sum goes to all workers
  kAnswerOne,  // the worker has missed the sum
};

struct SwitchCounters {
  std::uint64_t completed = 0;
  std::uint64_t repeats = 0;   // of a slot that waits for other workers
  std::uint64_t answered = 0;  // again, to a worker that missed the sum
  std::uint64_t late = 0;      // overtaken by a later packet of the same worker and slot
};

class PoolSwitch {
 public:
  PoolSwitch(std::uint32_t workers, std::uint32_t slots);

  // What to do with a packet of a worker; sum() of its chunk is the answer.
  Verdict handle_packet(const PoolPacket& packet);
  const PoolPacket& sum(std::uint32_t chunk) const;
  const SwitchCounters& counters() const { return counters_; }

 private:
  struct Version {
    std::uint64_t seen = 0;   // a bit per worker
    std::uint32_t count = 0;  // of workers, modulo their number: 0 also when it is complete
    PoolPacket sum{};
  };
  struct Slot {
    std::array<Version, 2> versions;
    // The newest chunk of each worker. SwitchML relies on packets in order; a real machine may
    // deliver a repeat after its successor, which would count as the next chunk's.
    std::array<std::uint32_t, kMaxWorkers> newest{};
  };

  const std::uint32_t workers_;
  std::vector<Slot> slots_;
  SwitchCounters counters_;
};

}  // namespace slot_pool
