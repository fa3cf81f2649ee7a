#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <new>

// For tests: a thread that soon has no memory left. Include it in one source of a test program,
// whose operator new it replaces.

namespace atp::testing {

using SteadyTime = std::chrono::steady_clock::time_point;

// How many allocations of this thread succeed before one fails; negative: all.
inline thread_local int allocations_left = -1;

// Whether an engine lacked memory for an operation after so many allocations. Either way it must
// end the operation, and once, or its caller would wait for ever.
template <class Engine, class Operation>
bool lacks_memory(Engine& engine, const Operation& operation, int allocations) {
  bool lacked = false;
  try {
    allocations_left = allocations;
    engine.submit(operation, {});
    engine.work([] { return SteadyTime(); }, {});
  } catch (const std::bad_alloc&) {
    lacked = true;
  }
  allocations_left = -1;
  engine.stop("no memory");
  const auto ended = engine.take_ended();
  EXPECT_EQ(ended.size(), 1U) << "after " << allocations << " allocations";
  if (!ended.empty()) {
    EXPECT_EQ(ended[0].operation, operation);
  }
  return lacked;
}

}  // namespace atp::testing

// Not inlined: the compiler would take malloc() and delete for a mismatch.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  int& left = atp::testing::allocations_left;
  if (left >= 0 && left-- == 0) throw std::bad_alloc();
  if (void* memory = std::malloc(bytes > 0 ? bytes : 1)) return memory;
  throw std::bad_alloc();
}

[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
