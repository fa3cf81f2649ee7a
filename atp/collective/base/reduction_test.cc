#include "atp/collective/base/reduction.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <complex>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "atp/base/random.h"
#include "atp/wire/element.h"

// Compares with the plain rule, one value at a time: all pairs of 8-bit values, every 16-bit value
// with many others, and random bits of the larger types.

namespace atp {
namespace {

using Row = std::vector<std::byte>;
using enum ElementReduction;

constexpr ElementReduction kAll[] = {kSum, kAverage, kProduct, kMin, kMax, kAnd, kOr, kXor};

struct Bool {
  using Value = bool;
  static Value load(const std::byte* at) { return *at != std::byte{0}; }
  static void store(std::byte* at, Value value) { *at = static_cast<std::byte>(value ? 1 : 0); }
};

template <class T>
struct Same {
  using Value = T;
  static Value load(const std::byte* at) {
    T value;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  static void store(std::byte* at, Value value) { std::memcpy(at, &value, sizeof value); }
};

template <class Narrow>
struct InFloat : Narrow {
  using Value = float;
};

template <class T>
T plain(ElementReduction how, T a, T b) {
  if constexpr (std::is_same_v<T, bool>) {
    if (how == kXor) return a != b;
    return how == kSum || how == kMax || how == kOr ? a || b : a && b;
  } else if constexpr (std::is_integral_v<T>) {
    const auto x = static_cast<std::uint64_t>(a);
    const auto y = static_cast<std::uint64_t>(b);
    switch (how) {
      case kSum: return static_cast<T>(x + y);
      case kProduct: return static_cast<T>(x * y);
      case kMin: return std::min(a, b);
      case kMax: return std::max(a, b);
      case kAnd: return static_cast<T>(x & y);
      case kOr: return static_cast<T>(x | y);
      default: return static_cast<T>(x ^ y);
    }
  } else {
    if (how == kSum || how == kAverage) return a + b;
    if (how == kProduct) return a * b;
    if (a != a) return a;
    if (b != b) return b;
    return how == kMin ? std::min(a, b) : std::max(a, b);
  }
}

template <class Element>
bool is_nan(const std::byte* at) {
  const auto value = Element::load(at);
  return value != value;
}

// Which of two NaNs a sum or a product keeps is the processor's choice.
template <class Element>
bool is_same(ElementReduction how, const Row& a, const Row& b, std::size_t at, std::size_t bytes) {
  if (std::memcmp(a.data() + at, b.data() + at, bytes) == 0) return true;
  if (how == kMin || how == kMax) return false;
  return is_nan<Element>(a.data() + at) && is_nan<Element>(b.data() + at);
}

template <class Element>
void expect_the_plain_rule(ElementKind kind, const std::vector<Row>& rows) {
  using Value = typename Element::Value;
  const std::size_t bytes = bytes_of(kind);
  const std::size_t count = rows[0].size() / bytes;
  for (const ElementReduction how : kAll) {
    if (!can_reduce(kind, how)) continue;
    Row expected(rows[0].size());
    for (std::size_t at = 0; at < expected.size(); at += bytes) {
      Value result = Element::load(rows[0].data() + at);
      for (std::size_t r = 1; r < rows.size(); ++r) {
        result = plain<Value>(how, result, Element::load(rows[r].data() + at));
      }
      if constexpr (std::is_floating_point_v<Value>) {
        if (how == kAverage) result /= static_cast<Value>(rows.size());
      }
      Element::store(expected.data() + at, result);
    }
    std::vector<Row> changed = rows;
    std::vector<const std::byte*> operands;
    for (const Row& row : changed) operands.push_back(row.data());
    Row& last = changed.back();  // the result may overwrite an operand
    reduce_elements(kind, how, operands, rows.size(), last.data(), count);
    std::size_t wrong = 0;
    for (std::size_t at = 0; at < expected.size(); at += bytes) {
      wrong += is_same<Element>(how, expected, last, at, bytes) ? 0 : 1;
    }
    EXPECT_EQ(wrong, 0U) << to_string(how) << " of " << rows.size() << " rows of "
                         << to_string(kind);
  }
}

template <class Element>
void expect_all_pairs_of_bytes(ElementKind kind) {
  std::vector<Row> rows(2, Row(1U << 16));
  for (std::size_t i = 0; i < rows[0].size(); ++i) {
    rows[0][i] = static_cast<std::byte>(i >> 8);
    rows[1][i] = static_cast<std::byte>(i);
  }
  expect_the_plain_rule<Element>(kind, rows);
  rows.push_back(rows[0]);
  std::reverse(rows[2].begin(), rows[2].end());
  expect_the_plain_rule<Element>(kind, rows);
}

// Every 16-bit value with a different one, `step` steps away in a cycle through all of them.
std::vector<Row> all_of_16_bits(std::size_t ranks, std::uint16_t step) {
  std::vector<Row> rows(ranks, Row(2U << 16));
  for (std::size_t r = 0; r < ranks; ++r) {
    for (std::uint32_t i = 0; i < 1U << 16; ++i) {
      const auto value = static_cast<std::uint16_t>(i * (1U + 2 * r) + r * step);
      std::memcpy(rows[r].data() + 2 * i, &value, sizeof value);
    }
  }
  return rows;
}

template <class Element>
void expect_every_value_of_16_bits(ElementKind kind) {
  for (std::uint16_t step = 1; step < 60'000; step += 9'973) {
    for (const std::size_t ranks : {2U, 3U}) {
      expect_the_plain_rule<Element>(kind, all_of_16_bits(ranks, step));
    }
  }
}

template <class Element>
void expect_random_bits(ElementKind kind) {
  Random random(3);
  for (const std::size_t ranks : {1U, 2U, 5U}) {
    std::vector<Row> rows(ranks, Row(bytes_of(kind) * 4'999));
    for (Row& row : rows) {
      for (std::byte& byte : row) byte = static_cast<std::byte>(random.below(256));
    }
    expect_the_plain_rule<Element>(kind, rows);
  }
}

TEST(Reduction, OfAnyTwoBytesFollowsThePlainRule) {
  expect_all_pairs_of_bytes<Bool>(ElementKind::kBool);
  expect_all_pairs_of_bytes<Same<std::uint8_t>>(ElementKind::kUint8);
  expect_all_pairs_of_bytes<Same<std::int8_t>>(ElementKind::kInt8);
}

TEST(Reduction, OfEvery16BitValueFollowsThePlainRule) {
  expect_every_value_of_16_bits<Same<std::int16_t>>(ElementKind::kInt16);
  expect_every_value_of_16_bits<InFloat<element::Float16>>(ElementKind::kFloat16);
  expect_every_value_of_16_bits<InFloat<element::BFloat16>>(ElementKind::kBFloat16);
}

TEST(Reduction, OfLargerTypesFollowsThePlainRule) {
  expect_random_bits<Same<std::int32_t>>(ElementKind::kInt32);
  expect_random_bits<Same<std::int64_t>>(ElementKind::kInt64);
  expect_random_bits<Same<float>>(ElementKind::kFloat32);
  expect_random_bits<Same<double>>(ElementKind::kFloat64);
}

TEST(Reduction, OfComplexNumbers) {
  using Complex = std::complex<float>;
  const std::vector<Complex> a = {{1, 2}, {-3, 0.5}};
  const std::vector<Complex> b = {{3, -1}, {2, 4}};
  const std::vector<const std::byte*> operands = {reinterpret_cast<const std::byte*>(a.data()),
                                                  reinterpret_cast<const std::byte*>(b.data())};
  const auto reduced = [&](ElementReduction how) {
    std::vector<Complex> result(2);
    reduce_elements(ElementKind::kComplex64, how, operands, 2,
                    reinterpret_cast<std::byte*>(result.data()), 2);
    return result;
  };
  EXPECT_EQ(reduced(kSum), (std::vector<Complex>{{4, 1}, {-1, 4.5}}));
  EXPECT_EQ(reduced(kAverage), (std::vector<Complex>{{2, 0.5}, {-0.5, 2.25}}));
  EXPECT_EQ(reduced(kProduct), (std::vector<Complex>{{5, 5}, {-8, -11}}));
}

}  // namespace
}  // namespace atp
