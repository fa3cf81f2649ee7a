#pragma once

#include <cstddef>

#include "atp/base/counters.h"

namespace atp::sim {

template <class Enum>
void add_to(Counters<Enum>& sum, const Counters<Enum>& more) {
  for (std::size_t i = 0; i < Counters<Enum>::kSize; ++i) {
    const auto counter = static_cast<Enum>(i);
    sum.add(counter, more[counter]);
  }
}

}  // namespace atp::sim
