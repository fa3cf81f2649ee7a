#pragma once

#include <cstdint>

namespace atp::sim {

// Counts allocations made inside the nodes: the world opens a guard around each call of a node,
// and the test program's operator new (allocation_test.cc) counts while one is open.
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
