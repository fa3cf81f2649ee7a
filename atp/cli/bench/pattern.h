#pragma once

#include <cstdint>
#include <span>
#include <vector>

// The data of `atp bench`: every rank can compute what every rank contributes, so that each
// element of a sum is compared, bit for bit, with the exact integer sum.
//
// An element is m / 256 with an integer m. Multiplied by the fixed scale 1e8 = 2^8 · 390625 it is
// an integer, and by the automatic scale (a power of two, 2^8 or more) as well: no rounding
// anywhere. |m| is bounded so that the sum of all ranks stays within int32.

namespace atp {

class BenchPattern {
 public:
  // One iteration of one size; the seed tells it from all others.
  BenchPattern(std::size_t world_size, std::uint64_t seed);

  void fill(std::size_t rank, std::span<float> out) const;
  // Elements of the sum (or the average) that are not exactly what they must be.
  std::uint64_t count_wrong(std::span<const float> sum, bool average) const;

 private:
  std::int32_t numerator(std::size_t rank, std::size_t index) const;

  std::size_t world_size_;
  std::uint64_t seed_;
  std::uint32_t bound_;
};

// Integers as values that a sum over ranks carries exactly: rank r writes its numbers into its own
// part of a vector of zeros, and after an all_reduce everybody can read everybody's. They are cut
// into digits so small that even a fragment in which every rank has a part stays within int32.
class ExactGather {
 public:
  ExactGather(std::size_t world_size, std::size_t count);

  void put(std::size_t rank, std::span<const std::uint64_t> numbers);
  std::span<float> values() { return values_; }  // to be summed
  std::uint64_t get(std::size_t rank, std::size_t i) const;

 private:
  std::size_t count_;
  unsigned digit_bits_;
  unsigned digits_;
  std::vector<float> values_;
};

}  // namespace atp
