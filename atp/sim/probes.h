#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

// What tests can observe while a world runs: which part of the simulator its thread is in, and
// whether a node allocates memory. The world sets both around each call of a node; neither changes
// a run.

namespace atp::sim {

// The part that the simulator's thread is in, for profiling: a sampler in another thread reads it
// from time to time. Setting it costs a store and no clock reading, so profiling does not slow a
// run.
enum class Part : std::uint8_t {
  kMaking,   // making hosts, their memory, the tensors
  kLoop,     // choosing the next event and its host, and arming timers
  kNetwork,  // links, packets in flight, the order of events
  kSwitch,
  kServer,
  kWorker,
  kApplication,  // including the oracle's check of each sum
  kCount
};

inline constexpr std::array<const char*, static_cast<std::size_t>(Part::kCount)> kPartNames{
    "making", "loop", "network", "switch", "server", "worker", "application"};

class Within {
 public:
  explicit Within(Part part) : before_(current.load(std::memory_order_relaxed)) {
    current.store(part, std::memory_order_relaxed);
  }
  ~Within() { current.store(before_, std::memory_order_relaxed); }
  Within(const Within&) = delete;
  Within& operator=(const Within&) = delete;

  static inline constinit thread_local std::atomic<Part> current = Part::kLoop;

 private:
  Part before_;
};

// Counts allocations in the nodes: the world opens a guard around each call of a node, and the test
// program's operator new (allocation_test.cc) counts while a guard is open.
class AllocationGuard {
 public:
  AllocationGuard() { inside_node = true; }
  ~AllocationGuard() { inside_node = false; }
  AllocationGuard(const AllocationGuard&) = delete;
  AllocationGuard& operator=(const AllocationGuard&) = delete;

  static inline thread_local bool inside_node = false;
  static inline thread_local std::uint64_t allocations = 0;
};

}  // namespace atp::sim
