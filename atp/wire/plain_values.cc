#include "atp/wire/plain_values.h"

#include <bit>
#include <cstring>

#include "atp/wire/element.h"

namespace atp {
namespace {

// Above every number, also of reversed ones: ±Inf become ±0x7f800000 or so.
constexpr std::int32_t kNanKey = 0x7fffffff;
constexpr std::uint32_t kNanBits = 0x7fc00000U;

// Flips the bits of negative numbers below the sign, of which floats count away from 0 and integers
// towards it. Its own inverse.
ATP_IN_VALUE_LOOP std::int32_t ordered(std::uint32_t bits) {
  const auto integer = static_cast<std::int32_t>(bits);
  return integer ^ ((integer >> 31) & 0x7fffffff);
}

ATP_IN_VALUE_LOOP std::int32_t key_of(float value, std::int32_t reversed) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const bool is_nan = (bits & 0x7fffffffU) > 0x7f800000U;
  return is_nan ? kNanKey : ordered(bits) ^ reversed;
}

ATP_IN_VALUE_LOOP float value_of(std::int32_t key, std::int32_t reversed) {
  const auto bits = static_cast<std::uint32_t>(ordered(static_cast<std::uint32_t>(key ^ reversed)));
  return std::bit_cast<float>(key == kNanKey ? kNanBits : bits);
}

// All bits set where the order is to be reversed.
constexpr std::int32_t reversal_of(Reduction reduction) {
  return reduction == Reduction::kMin ? -1 : 0;
}

}  // namespace

ATP_VALUE_LOOP void write_plain(DataType type, Reduction reduction, const std::byte* values,
                                std::size_t count, std::uint8_t* at) {
  const std::int32_t reversed = reversal_of(reduction);
  if (type == DataType::kInt32) {
    for (std::size_t i = 0; i < count; ++i) {
      std::int32_t value;
      std::memcpy(&value, values + 4 * i, sizeof value);
      store_value(at + 4 * i, static_cast<std::uint32_t>(value ^ reversed));
    }
    return;
  }
  element::with_float(type, [&](auto of) ATP_INLINE_LAMBDA {
    using Element = decltype(of);
    for (std::size_t i = 0; i < count; ++i) {
      const std::int32_t key = key_of(Element::load(values + Element::kBytes * i), reversed);
      store_value(at + 4 * i, static_cast<std::uint32_t>(key));
    }
  });
}

ATP_VALUE_LOOP void read_plain(DataType type, Reduction reduction, const std::uint8_t* at,
                               std::size_t count, std::byte* values) {
  const std::int32_t reversed = reversal_of(reduction);
  if (type == DataType::kInt32) {
    for (std::size_t i = 0; i < count; ++i) {
      const std::int32_t value = static_cast<std::int32_t>(load_value(at + 4 * i)) ^ reversed;
      std::memcpy(values + 4 * i, &value, sizeof value);
    }
    return;
  }
  element::with_float(type, [&](auto of) ATP_INLINE_LAMBDA {
    using Element = decltype(of);
    for (std::size_t i = 0; i < count; ++i) {
      const auto key = static_cast<std::int32_t>(load_value(at + 4 * i));
      Element::store(values + Element::kBytes * i, value_of(key, reversed));
    }
  });
}

}  // namespace atp
