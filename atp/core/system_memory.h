#pragma once

#include <cstddef>
#include <new>

#include "atp/base/zeroed_array.h"

// What the system gives can be less than a node's own limit allows: an address space limit (ulimit
// -v), or a system that does not overcommit.

namespace atp {

// Whether the system would now give a job this memory. Leaves some for what a node needs besides,
// for example to say what it does.
inline bool system_gives(std::size_t bytes) {
  constexpr std::size_t kSpare = std::size_t{4} << 20;
  try {
    const ZeroedMemory untouched(bytes + kSpare);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

}  // namespace atp
