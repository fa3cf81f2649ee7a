#include "atp/wire/block_values.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "atp/base/check.h"
#include "atp/wire/element.h"

namespace atp {
namespace {

constexpr std::uint32_t kInfinityBits = 0x7f800000U;

// How many bits the sum of integer contributions has, without its sign.
constexpr int bits_of(NumberFormat format) {
  return format == NumberFormat::kBlocksInt16 ? 15 : 30;
}

int unit_exponent(std::int16_t exponent, std::size_t world_size, NumberFormat format) {
  const int wanted = exponent + 1 + carry_bits(world_size) - bits_of(format);
  return std::max(wanted, kLowestExponent);
}

// For exponents of −149 … 127. Builds the float from its bits: ldexp() would cost a sixth of the
// time that quantizing a fragment takes.
float power_of_two(int exponent) {
  constexpr int kLowestNormal = -126;
  if (exponent < kLowestNormal) {
    return std::bit_cast<float>(std::uint32_t{1} << (exponent - kLowestExponent));
  }
  return std::bit_cast<float>(static_cast<std::uint32_t>(exponent + 127) << 23);
}

template <class Element>
ATP_IN_VALUE_LOOP std::uint32_t largest_bits(const std::byte* values, std::size_t count) {
  std::uint32_t largest = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const float value = Element::load(values + Element::kBytes * i);
    largest = std::max(largest, std::bit_cast<std::uint32_t>(value) & 0x7fffffffU);
  }
  return largest;
}

// Bits without their sign are in the same order as absolute values, with NaN above all of them.
ATP_VALUE_LOOP std::uint32_t largest_bits_of(DataType type, const std::byte* values,
                                             std::size_t count) {
  return element::with_float(
      type, [&](auto of) ATP_INLINE_LAMBDA { return largest_bits<decltype(of)>(values, count); });
}

ATP_IN_VALUE_LOOP float whole_units(float value, float first, float second) {
  return __builtin_rintf(value * first * second);
}

// At most 2^30 in magnitude if the ranks agreed on the block honestly. A forged exponent may give
// any value, but the conversion must stay defined.
ATP_IN_VALUE_LOOP std::int32_t in_units(float value, float first, float second) {
  constexpr float kMost = 0x1p30F;
  const float units = whole_units(value, first, second);
  const float not_above = units < kMost ? units : kMost;
  return static_cast<std::int32_t>(not_above > -kMost ? not_above : -kMost);
}

template <class Element>
ATP_IN_VALUE_LOOP void quantize32(const std::byte* values, std::size_t count, float first,
                                  float second, std::uint8_t* at) {
  for (std::size_t i = 0; i < count; ++i) {
    const float value = Element::load(values + Element::kBytes * i);
    store_value(at + 4 * i, static_cast<std::uint32_t>(in_units(value, first, second)));
  }
}

template <class Element>
ATP_IN_VALUE_LOOP void quantize16(const std::byte* values, std::size_t count, float first,
                                  float second, std::int32_t limit, std::uint8_t* at) {
  for (std::size_t i = 0; i < count; ++i) {
    const float value = Element::load(values + Element::kBytes * i);
    const std::int32_t integer = std::clamp(in_units(value, first, second), -limit, limit);
    store_value16(at + 2 * i, static_cast<std::uint16_t>(integer));
  }
}

template <class Element>
ATP_IN_VALUE_LOOP void round_floats(const std::byte* values, std::size_t count, float first,
                                    float second, std::int32_t limit, float unit,
                                    std::uint8_t* at) {
  for (std::size_t i = 0; i < count; ++i) {
    const float value = Element::load(values + Element::kBytes * i);
    const std::int32_t integer = std::clamp(in_units(value, first, second), -limit, limit);
    store_value(at + 4 * i, std::bit_cast<std::uint32_t>(static_cast<float>(integer) * unit));
  }
}

// Sums skip the division, which costs as much as everything else here.
template <class Element, class Load>
ATP_IN_VALUE_LOOP void write_results(std::size_t count, float divisor, std::byte* values,
                                     Load&& load) {
  if (divisor == 1) {
    for (std::size_t i = 0; i < count; ++i) {
      Element::store(values + Element::kBytes * i, load(i));
    }
    return;
  }
  for (std::size_t i = 0; i < count; ++i) {
    Element::store(values + Element::kBytes * i, load(i) / divisor);
  }
}

}  // namespace

namespace {

std::int16_t exponent_of_bits(std::uint32_t largest) {
  if (largest == 0) return kZeroBlock;
  if (largest >= kInfinityBits) return kSpecialBlock;
  const int exponent = static_cast<int>(largest >> 23);
  // A denormal has no hidden bit: its highest one counts.
  if (exponent == 0) return static_cast<std::int16_t>(std::bit_width(largest) - 150);
  return static_cast<std::int16_t>(exponent - 127);
}

// A function of its own, so that __restrict tells the compiler that sums and row do not overlap.
// (No value exceeds 2^30: the unit's exponent is no smaller than any row's.) The first row needs no
// zeros to be added to.
template <bool kIsFirst>
ATP_VALUE_LOOP [[gnu::noinline]] void add_row(DataType type, const std::byte* __restrict row,
                                              std::size_t count, const BlockUnit& unit,
                                              std::int32_t* __restrict sums) {
  const float first = unit.first_factor();
  const float second = unit.second_factor();
  const std::int32_t limit = unit.limit();
  element::with_float(type, [&](auto of) ATP_INLINE_LAMBDA {
    using Element = decltype(of);
    for (std::size_t i = 0; i < count; ++i) {
      const float value = Element::load(row + Element::kBytes * i);
      const auto integer = static_cast<std::int32_t>(whole_units(value, first, second));
      const std::int32_t units = std::clamp(integer, -limit, limit);
      sums[i] = kIsFirst ? units : sums[i] + units;
    }
  });
}

}  // namespace

std::int16_t block_exponent(DataType type, const std::byte* values, std::size_t count) {
  return exponent_of_bits(largest_bits_of(type, values, count));
}

std::int16_t block_exponent_of_rows(DataType type, std::span<const std::byte* const> rows,
                                    std::size_t count) {
  std::uint32_t largest = 0;
  for (const std::byte* row : rows) largest = std::max(largest, largest_bits_of(type, row, count));
  return exponent_of_bits(largest);
}

void add_rows_in_units(DataType type, std::span<const std::byte* const> rows, std::size_t count,
                       const BlockUnit& unit, std::int32_t* sums) {
  add_row<true>(type, rows.front(), count, unit, sums);
  for (const std::byte* row : rows.subspan(1)) add_row<false>(type, row, count, unit, sums);
}

ATP_VALUE_LOOP void write_sums_of_units(const std::int32_t* __restrict sums, std::size_t count,
                                        const BlockUnit& unit, float divisor, DataType type,
                                        std::byte* __restrict to) {
  const float one = unit.unit();
  element::with_float(type, [&](auto of) ATP_INLINE_LAMBDA {
    using Element = decltype(of);
    write_results<Element>(count, divisor, to, [&](std::size_t i) ATP_INLINE_LAMBDA {
      return static_cast<float>(sums[i]) * one;
    });
  });
}

void sum_rows_in_units(DataType type, std::span<const std::byte* const> rows, std::size_t count,
                       const BlockUnit& unit, float divisor, std::byte* to) {
  ATP_CHECK(count <= kBlockValues);
  std::array<std::int32_t, kBlockValues> sums;
  add_rows_in_units(type, rows, count, unit, sums.data());
  write_sums_of_units(sums.data(), count, unit, divisor, type, to);
}

BlockUnit::BlockUnit(std::int16_t exponent, std::size_t world_size, NumberFormat format) {
  ATP_CHECK(exponent >= kLowestExponent && exponent <= kHighestExponent);
  const int unit = unit_exponent(exponent, world_size, format);
  unit_ = power_of_two(unit);
  first_factor_ = power_of_two(std::min(-unit, 127));
  second_factor_ = power_of_two(std::max(-unit - 127, 0));
  const bool narrow = format == NumberFormat::kBlocksInt16;
  limit_ = narrow ? (1 << (15 - carry_bits(world_size))) - 1 : 1 << 30;
}

ATP_VALUE_LOOP void quantize(DataType type, const std::byte* values, std::size_t count,
                             const BlockUnit& unit, NumberFormat format, std::uint8_t* at) {
  const float first = unit.first_factor();
  const float second = unit.second_factor();
  const std::int32_t limit = unit.limit();
  element::with_float(type, [&](auto of) ATP_INLINE_LAMBDA {
    using Element = decltype(of);
    if (format == NumberFormat::kBlocksInt16) {
      quantize16<Element>(values, count, first, second, limit, at);
    } else {
      quantize32<Element>(values, count, first, second, at);
    }
  });
}

ATP_VALUE_LOOP void round_to_units(DataType type, const std::byte* values, std::size_t count,
                                   const BlockUnit& unit, std::uint8_t* at) {
  element::with_float(type, [&](auto of) ATP_INLINE_LAMBDA {
    round_floats<decltype(of)>(values, count, unit.first_factor(), unit.second_factor(),
                               unit.limit(), unit.unit(), at);
  });
}

ATP_VALUE_LOOP void dequantize(const std::uint8_t* at, std::size_t count, const BlockUnit& unit,
                               NumberFormat format, float divisor, DataType type,
                               std::byte* values) {
  const float one = unit.unit();
  element::with_float(type, [&](auto of) ATP_INLINE_LAMBDA {
    using Element = decltype(of);
    if (format == NumberFormat::kBlocksInt16) {
      write_results<Element>(count, divisor, values, [=](std::size_t i) ATP_INLINE_LAMBDA {
        const auto sum = static_cast<std::int16_t>(load_value16(at + 2 * i));
        return static_cast<float>(sum) * one;
      });
    } else {
      write_results<Element>(count, divisor, values, [=](std::size_t i) ATP_INLINE_LAMBDA {
        const auto sum = static_cast<std::int32_t>(load_value(at + 4 * i));
        return static_cast<float>(sum) * one;
      });
    }
  });
}

// Summed over the ranks, the low bits count those with +Inf and the high bits those with −Inf: at
// most 64 each. NaN counts as both.
constexpr std::uint16_t kPlusInfinity = 1;
constexpr std::uint16_t kMinusInfinity = 128;

void write_classes(DataType type, const std::byte* values, std::size_t count, std::uint8_t* at) {
  element::with_float(type, [&](auto of) ATP_INLINE_LAMBDA {
    using Element = decltype(of);
    for (std::size_t i = 0; i < count; ++i) {
      const float value = Element::load(values + Element::kBytes * i);
      std::uint16_t classes = 0;
      if (!std::isfinite(value)) {
        if (std::isnan(value) || value > 0) classes += kPlusInfinity;
        if (std::isnan(value) || value < 0) classes += kMinusInfinity;
      }
      store_value16(at + 2 * i, classes);
    }
  });
}

void read_classes(const std::uint8_t* at, std::size_t count, DataType type, std::byte* values) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  element::with_float(type, [&](auto of) ATP_INLINE_LAMBDA {
    using Element = decltype(of);
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint16_t classes = load_value16(at + 2 * i);
      const bool plus = classes % kMinusInfinity != 0;
      const bool minus = classes >= kMinusInfinity;
      const float one_sign = plus ? kInfinity : -kInfinity;
      Element::store(values + Element::kBytes * i, plus != minus ? one_sign : kNan);
    }
  });
}

ATP_VALUE_LOOP void write_floats(DataType type, const std::byte* values, std::size_t count,
                                 std::uint8_t* at) {
  element::with_float(type, [&](auto of) ATP_INLINE_LAMBDA {
    using Element = decltype(of);
    for (std::size_t i = 0; i < count; ++i) {
      const float value = Element::load(values + Element::kBytes * i);
      store_value(at + 4 * i, std::bit_cast<std::uint32_t>(value));
    }
  });
}

ATP_VALUE_LOOP void read_floats(const std::uint8_t* at, std::size_t count, float divisor,
                                DataType type, std::byte* values) {
  element::with_float(type, [&](auto of) ATP_INLINE_LAMBDA {
    write_results<decltype(of)>(count, divisor, values, [=](std::size_t i) ATP_INLINE_LAMBDA {
      return std::bit_cast<float>(load_value(at + 4 * i));
    });
  });
}

}  // namespace atp
