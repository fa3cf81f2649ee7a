#pragma once

#include <cstdlib>
#include <new>

// For tests: a thread that soon has no memory left. Include it in one source of a test program,
// whose operator new it replaces.

namespace atp::testing {

// How many allocations of this thread succeed before one fails; negative: all.
inline thread_local int allocations_left = -1;

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
