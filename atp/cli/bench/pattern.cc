#include "atp/cli/bench/pattern.h"

#include <algorithm>
#include <cstring>

#include "atp/base/check.h"
#include "atp/wire/element.h"

namespace atp {
namespace {

constexpr float kUnit = 1.0F / 256;

// The largest sum of absolute numerators, for any number of ranks. 390625 · 5497 is the largest
// multiple of 390625 = 1e8 / 256 below 2^31; the others are what the narrow types hold exactly.
std::uint32_t largest_sum(DataType type) {
  if (type == DataType::kBFloat16) return 256;
  return type == DataType::kFloat16 ? 2048 : 5497;
}

// splitmix64's finalizer.
std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

void store_float(DataType type, float value, std::byte* at) {
  element::with_float(type, [&](auto of) { decltype(of)::store(at, value); });
}

}  // namespace

BenchPattern::BenchPattern(std::size_t world_size, std::uint64_t seed, DataType type)
    : world_size_(world_size),
      seed_(mix(seed + 0x9e3779b97f4a7c15)),
      type_(type),
      bound_(std::max(1U, largest_sum(type) / static_cast<std::uint32_t>(world_size))) {}

std::uint64_t BenchPattern::random(std::size_t rank, std::size_t index) const {
  return mix(seed_ + index * 0x9e3779b97f4a7c15 + rank * 0xd1342543de82ef95);
}

std::int32_t BenchPattern::numerator(std::size_t rank, std::size_t index) const {
  const std::uint64_t range = 2 * bound_ + 1;
  return static_cast<std::int32_t>(((random(rank, index) >> 32) * range) >> 32) -
         static_cast<std::int32_t>(bound_);
}

std::uint32_t BenchPattern::integer_sum(std::size_t index) const {
  std::uint32_t sum = 0;
  for (std::size_t rank = 0; rank < world_size_; ++rank) {
    sum += static_cast<std::uint32_t>(random(rank, index));
  }
  return sum;
}

float BenchPattern::float_sum(std::size_t index) const {
  std::int32_t sum = 0;
  for (std::size_t rank = 0; rank < world_size_; ++rank) sum += numerator(rank, index);
  return static_cast<float>(sum) * kUnit;
}

void BenchPattern::fill(std::size_t rank, std::span<std::byte> out) const {
  const std::size_t size = bytes_of(type_);
  for (std::size_t i = 0; i < out.size() / size; ++i) {
    if (is_floating(type_)) {
      store_float(type_, static_cast<float>(numerator(rank, i)) * kUnit, out.data() + size * i);
    } else {
      const auto value = static_cast<std::uint32_t>(random(rank, i));
      std::memcpy(out.data() + size * i, &value, size);
    }
  }
}

std::uint64_t BenchPattern::count_wrong(std::span<const std::byte> sum, bool average) const {
  const std::size_t size = bytes_of(type_);
  const float divisor = average ? static_cast<float>(world_size_) : 1.0F;
  std::uint64_t wrong = 0;
  for (std::size_t i = 0; i < sum.size() / size; ++i) {
    std::byte expected[4];
    if (is_floating(type_)) {
      store_float(type_, float_sum(i) / divisor, expected);
    } else {
      const std::uint32_t value = integer_sum(i);
      std::memcpy(expected, &value, size);
    }
    if (std::memcmp(expected, sum.data() + size * i, size) != 0) ++wrong;
  }
  return wrong;
}

void NumberGather::put(std::size_t rank, std::span<const std::uint64_t> numbers) {
  ATP_CHECK(numbers.size() == count_);
  std::uint32_t* at = words_.data() + 2 * rank * count_;
  for (const std::uint64_t number : numbers) {
    *at++ = static_cast<std::uint32_t>(number);
    *at++ = static_cast<std::uint32_t>(number >> 32);
  }
}

std::uint64_t NumberGather::get(std::size_t rank, std::size_t i) const {
  const std::uint32_t* at = words_.data() + 2 * (rank * count_ + i);
  return at[0] | std::uint64_t{at[1]} << 32;
}

}  // namespace atp
