#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "atp/wire/number_format.h"

// The data of `atp bench`: every rank can compute every rank's contribution, so each element of a
// result is compared, bit for bit, with the exact one.
//
// An element of a floating-point type is m / 256 with an integer m. It is an integer both on the
// fixed scale, 1e8 = 2^8 · 390625, and in its block's unit, even in 16 bits: nothing is rounded.
// |m| is bounded so that the sum over all ranks fits into an int32 on the fixed scale, and each
// element into its type; a sum that a narrow type cannot hold is rounded once. int32 elements are
// arbitrary, because int32 sums are taken modulo 2^32.

namespace atp {

class BenchPattern {
 public:
  // The data of one iteration of one size; `seed` identifies it.
  BenchPattern(std::size_t world_size, std::uint64_t seed, DataType type = DataType::kFloat32);

  // `out` holds whole elements of the type.
  void fill(std::size_t rank, std::span<std::byte> out) const;
  // How many elements of the sum (or the average) are not exactly right.
  std::uint64_t count_wrong(std::span<const std::byte> sum, bool average) const;

 private:
  std::uint64_t random(std::size_t rank, std::size_t index) const;
  std::int32_t numerator(std::size_t rank, std::size_t index) const;
  std::uint32_t integer_sum(std::size_t index) const;
  float float_sum(std::size_t index) const;

  std::size_t world_size_;
  std::uint64_t seed_;
  DataType type_;
  std::uint32_t bound_;
};

// An all-gather of 64-bit numbers: each rank writes its own into its part of a vector of zeros. An
// all-reduce of int32, which is exact in every job, then gives every rank all of them.
class NumberGather {
 public:
  NumberGather(std::size_t world_size, std::size_t count)
      : count_(count), words_(2 * world_size * count) {}

  void put(std::size_t rank, std::span<const std::uint64_t> numbers);
  std::span<std::uint32_t> words() { return words_; }  // to be summed
  std::uint64_t get(std::size_t rank, std::size_t i) const;

 private:
  std::size_t count_;
  std::vector<std::uint32_t> words_;
};

}  // namespace atp
