#include "atp/wire/plain_values.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "atp/wire/element.h"

namespace atp {
namespace {

// Above the key of every number, reversed or not: ±Inf become about ±0x7f800000.
constexpr std::int32_t kNanKey = 0x7fffffff;
constexpr std::uint32_t kNanBits = 0x7fc00000U;

// Flips all bits but the sign of negative numbers: larger bits mean further from 0 in a float but
// nearer to 0 in an integer. Its own inverse.
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

// All bits set if the order is to be reversed.
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

namespace {

template <class Element>
struct Floating {
  static constexpr std::size_t kBytes = Element::kBytes;
  ATP_IN_VALUE_LOOP static std::int32_t key(const std::byte* at, std::int32_t reversed) {
    return key_of(Element::load(at), reversed);
  }
  ATP_IN_VALUE_LOOP static void store(std::byte* at, std::int32_t key, std::int32_t reversed) {
    Element::store(at, value_of(key, reversed));
  }
};

// Functions of their own, so that __restrict tells the compiler that keys and row do not overlap.
ATP_VALUE_LOOP [[gnu::noinline]] void take_first_row(DataType type, std::int32_t reversed,
                                                     const std::byte* __restrict row,
                                                     std::size_t count,
                                                     std::int32_t* __restrict keys) {
  element::with_float(type, [&](auto of) ATP_INLINE_LAMBDA {
    using Key = Floating<decltype(of)>;
    for (std::size_t i = 0; i < count; ++i) keys[i] = Key::key(row + Key::kBytes * i, reversed);
  });
}

ATP_VALUE_LOOP [[gnu::noinline]] void take_largest(DataType type, std::int32_t reversed,
                                                   const std::byte* __restrict row,
                                                   std::size_t count,
                                                   std::int32_t* __restrict keys) {
  element::with_float(type, [&](auto of) ATP_INLINE_LAMBDA {
    using Key = Floating<decltype(of)>;
    for (std::size_t i = 0; i < count; ++i) {
      const std::int32_t key = Key::key(row + Key::kBytes * i, reversed);
      keys[i] = keys[i] > key ? keys[i] : key;
    }
  });
}

ATP_VALUE_LOOP [[gnu::noinline]] void store_keys(DataType type, std::int32_t reversed,
                                                 const std::int32_t* __restrict keys,
                                                 std::size_t count, std::byte* __restrict to) {
  element::with_float(type, [&](auto of) ATP_INLINE_LAMBDA {
    using Key = Floating<decltype(of)>;
    for (std::size_t i = 0; i < count; ++i) Key::store(to + Key::kBytes * i, keys[i], reversed);
  });
}

}  // namespace

// Works on as many columns at a time as fit the first-level cache.
void compare_plain_rows(DataType type, Reduction reduction, std::span<const std::byte* const> rows,
                        std::size_t count, std::byte* to) {
  constexpr std::size_t kColumns = 512;
  const std::int32_t reversed = reversal_of(reduction);
  std::array<std::int32_t, kColumns> keys;
  for (std::size_t at = 0; at < count; at += kColumns) {
    const std::size_t columns = std::min(kColumns, count - at);
    const std::size_t offset = bytes_of(type) * at;
    take_first_row(type, reversed, rows[0] + offset, columns, keys.data());
    for (const std::byte* row : rows.subspan(1)) {
      take_largest(type, reversed, row + offset, columns, keys.data());
    }
    store_keys(type, reversed, keys.data(), columns, to + offset);
  }
}

}  // namespace atp
