#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "atp/base/result.h"

// For tests: what each rank contributes to an operation, and the expected result.

namespace atp::testing {

// Multiples of 1/256 below 2 are multiples of the fixed scale 1e-8 and of a block's unit, so sums
// are exact.
inline float value_of(std::size_t rank, std::size_t operation, std::size_t i) {
  return static_cast<float>((rank + 1) * ((i + 31 * operation) % 97 + 1)) / 256;
}

inline std::vector<float> tensor_of(std::size_t rank, std::size_t operation, std::size_t count) {
  std::vector<float> tensor(count);
  for (std::size_t i = 0; i < count; ++i) tensor[i] = value_of(rank, operation, i);
  return tensor;
}

inline std::vector<float> sum_of(std::size_t ranks, std::size_t operation, std::size_t count) {
  std::vector<float> sum(count);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    for (std::size_t i = 0; i < count; ++i) sum[i] += value_of(rank, operation, i);
  }
  return sum;
}

// Empty if it is not an error.
inline std::string message(const Status& status) {
  return status.ok() ? "" : status.error().message;
}

}  // namespace atp::testing
