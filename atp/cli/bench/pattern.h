#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "atp/wire/number_format.h"

// The data of `atp bench`: every rank can compute what every rank contributes, so that each
// element of a result is compared, bit for bit, with the exact one.
//
// An element of a floating-point type is m / 256 with an integer m. Multiplied by the fixed scale
// 1e8 = 2^8 · 390625 it is an integer, and so it is by the inverse of its block's unit, in 16 bits,
// too: no rounding anywhere. |m| is bounded so that the sum of all ranks stays within an int32 of
// the fixed scale, and each element within what its type can hold; a sum that a narrow type cannot
// hold is rounded once. Of int32 an element is any number, as sums are taken modulo 2^32.

namespace atp {

class BenchPattern {
 public:
  // One iteration of one size; the seed tells it from all others.
  BenchPattern(std::size_t world_size, std::uint64_t seed, DataType type = DataType::kFloat32);

  // Whole elements of the type.
  void fill(std::size_t rank, std::span<std::byte> out) const;
  // Elements of the sum (or the average) that are not exactly what they must be.
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

// Numbers of 64 bits from each rank to all: a rank writes its own into its part of a vector of
// zeros, and after a sum of int32, which is exact in every job, everybody can read everybody's.
class ExactGather {
 public:
  ExactGather(std::size_t world_size, std::size_t count) : count_(count), words_(2 * world_size * count) {}

  void put(std::size_t rank, std::span<const std::uint64_t> numbers);
  std::span<std::uint32_t> words() { return words_; }  // to be summed
  std::uint64_t get(std::size_t rank, std::size_t i) const;

 private:
  std::size_t count_;
  std::vector<std::uint32_t> words_;
};

}  // namespace atp
