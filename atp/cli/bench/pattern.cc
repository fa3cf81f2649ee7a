#include "atp/cli/bench/pattern.h"

#include <algorithm>
#include <bit>

#include "atp/base/check.h"

namespace atp {
namespace {

constexpr float kUnit = 1.0F / 256;
// 390625 · 5497 is the largest multiple of 390625 = 1e8 / 256 below 2^31.
constexpr std::uint32_t kLargestSum = 5497;

// splitmix64's finalizer.
std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

bool same_bits(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

}  // namespace

BenchPattern::BenchPattern(std::size_t world_size, std::uint64_t seed)
    : world_size_(world_size),
      seed_(mix(seed + 0x9e3779b97f4a7c15)),
      bound_(std::max(1U, kLargestSum / static_cast<std::uint32_t>(world_size))) {}

std::int32_t BenchPattern::numerator(std::size_t rank, std::size_t index) const {
  const std::uint64_t random = mix(seed_ + index * 0x9e3779b97f4a7c15 + rank * 0xd1342543de82ef95);
  const std::uint64_t range = 2 * bound_ + 1;
  return static_cast<std::int32_t>(((random >> 32) * range) >> 32) -
         static_cast<std::int32_t>(bound_);
}

void BenchPattern::fill(std::size_t rank, std::span<float> out) const {
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<float>(numerator(rank, i)) * kUnit;
  }
}

std::uint64_t BenchPattern::count_wrong(std::span<const float> sum, bool average) const {
  const double divisor = average ? 256.0 * static_cast<double>(world_size_) : 256.0;
  std::uint64_t wrong = 0;
  for (std::size_t i = 0; i < sum.size(); ++i) {
    std::int32_t expected = 0;
    for (std::size_t rank = 0; rank < world_size_; ++rank) expected += numerator(rank, i);
    if (!same_bits(sum[i], static_cast<float>(expected / divisor))) ++wrong;
  }
  return wrong;
}

ExactGather::ExactGather(std::size_t world_size, std::size_t count)
    : count_(count),
      digit_bits_(static_cast<unsigned>(
                      std::bit_width(kLargestSum / static_cast<std::uint32_t>(world_size))) -
                  1),
      digits_((64 + digit_bits_ - 1) / digit_bits_),
      values_(world_size * count * digits_) {}

void ExactGather::put(std::size_t rank, std::span<const std::uint64_t> numbers) {
  ATP_CHECK(numbers.size() == count_);
  const std::uint64_t mask = (std::uint64_t{1} << digit_bits_) - 1;
  float* at = values_.data() + rank * count_ * digits_;
  for (const std::uint64_t number : numbers) {
    for (unsigned digit = 0; digit < digits_; ++digit) {
      *at++ = static_cast<float>((number >> (digit * digit_bits_)) & mask) * kUnit;
    }
  }
}

std::uint64_t ExactGather::get(std::size_t rank, std::size_t i) const {
  const float* at = values_.data() + (rank * count_ + i) * digits_;
  std::uint64_t number = 0;
  for (unsigned digit = 0; digit < digits_; ++digit) {
    number |= static_cast<std::uint64_t>(at[digit] / kUnit) << (digit * digit_bits_);
  }
  return number;
}

}  // namespace atp
