#pragma once

#include <cstdint>
#include <string_view>

#include "atp/base/counters.h"

// For tests: the number of dropped packets, under all names together (docs/inside/protocol §7).

namespace atp {

constexpr bool is_drop(std::string_view counter) { return counter.starts_with("drop_"); }

template <class Counter>
std::uint64_t drops_in(const Counters<Counter>& counters) {
  std::uint64_t sum = 0;
  counters.for_each([&](std::string_view name, std::uint64_t value) {
    if (is_drop(name)) sum += value;
  });
  return sum;
}

}  // namespace atp
