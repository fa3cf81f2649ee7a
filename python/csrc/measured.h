#pragma once

#include <algorithm>
#include <chrono>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "atp/base/result.h"
#include "python/csrc/signals.h"

namespace atp::pytorch {

// The shortest time of `rounds` operations, after one that is not counted. Throws the error of an
// operation that fails. `timeout`: for all of them; each gets what is left.
template <class Operation>
std::chrono::nanoseconds shortest_of(std::size_t rounds, std::chrono::milliseconds timeout,
                                     const Operation& operation) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point until = Clock::now() + timeout;
  auto shortest = std::chrono::nanoseconds::max();
  for (std::size_t round = 0; round <= rounds; ++round) {
    const Clock::time_point begin = Clock::now();
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - begin);
    const Status ended = operation(std::max(left, std::chrono::milliseconds(1)));
    throw_if_interrupted();
    TORCH_CHECK_WITH(DistBackendError, ended.ok(), ended.error().message);
    if (round > 0) shortest = std::min<std::chrono::nanoseconds>(shortest, Clock::now() - begin);
  }
  return shortest;
}

}  // namespace atp::pytorch
