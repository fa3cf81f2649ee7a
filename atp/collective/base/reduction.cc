// One loop per element type and reduction, and the table that chooses it.
#include "atp/collective/base/reduction.h"

#include <algorithm>
#include <array>
#include <complex>
#include <cstring>
#include <type_traits>

#include "atp/base/check.h"
#include "atp/wire/element.h"
#include "atp/wire/values.h"

namespace atp {
namespace {

using Operands = std::span<const std::byte* const>;

template <class T>
struct Plain {
  using Wide = T;
  static constexpr std::size_t kBytes = sizeof(T);
  ATP_IN_VALUE_LOOP static Wide load(const std::byte* at) {
    T value;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  ATP_IN_VALUE_LOOP static void store(std::byte* at, Wide value) {
    std::memcpy(at, &value, sizeof value);
  }
};

// A byte is true unless it is 0.
struct Truth : Plain<std::uint8_t> {
  ATP_IN_VALUE_LOOP static Wide load(const std::byte* at) { return *at != std::byte{0} ? 1 : 0; }
};

template <class Narrow>
struct Half {
  using Wide = float;
  static constexpr std::size_t kBytes = 2;
  ATP_IN_VALUE_LOOP static Wide load(const std::byte* at) { return Narrow::load(at); }
  ATP_IN_VALUE_LOOP static void store(std::byte* at, Wide value) { Narrow::store(at, value); }
};

// Integers wrap around as unsigned numbers of at least 32 bits do.
template <class T>
ATP_IN_VALUE_LOOP T sum_of(T a, T b) {
  if constexpr (std::is_integral_v<T>) return static_cast<T>(0U + a + b);
  return a + b;
}

template <class T>
ATP_IN_VALUE_LOOP T product_of(T a, T b) {
  if constexpr (std::is_integral_v<T>) return static_cast<T>(1U * a * b);
  return a * b;
}
// The plain formula, as in torch: std::complex checks for infinities and calls a library.
template <class T>
ATP_IN_VALUE_LOOP std::complex<T> product_of(std::complex<T> a, std::complex<T> b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}

template <ElementReduction kHow, class T>
ATP_IN_VALUE_LOOP T combine(T a, T b) {
  using enum ElementReduction;
  if constexpr (kHow == kSum) {
    return sum_of(a, b);
  } else if constexpr (kHow == kProduct) {
    return product_of(a, b);
  } else if constexpr (kHow == kMin || kHow == kMax) {
    // A NaN wins. Without a branch, so that compilers turn the loops into SIMD.
    const bool is_nan = a != a;
    const bool is_first = kHow == kMin ? a <= b : a >= b;
    return (is_nan | is_first) ? a : b;
  } else if constexpr (kHow == kAnd) {
    return a & b;
  } else if constexpr (kHow == kOr) {
    return a | b;
  } else {
    return a ^ b;
  }
}

// Functions of their own, so that __restrict tells the compiler that sums and operands do not
// overlap.
template <class Element, class Wide = typename Element::Wide>
ATP_VALUE_LOOP [[gnu::noinline]] void load_first(const std::byte* __restrict first,
                                                 std::size_t count, Wide* __restrict sums) {
  for (std::size_t i = 0; i < count; ++i) sums[i] = Element::load(first + i * Element::kBytes);
}

template <class Element, ElementReduction kHow, class Wide = typename Element::Wide>
ATP_VALUE_LOOP [[gnu::noinline]] void combine_first(const std::byte* __restrict first,
                                                    const std::byte* __restrict second,
                                                    std::size_t count, Wide* __restrict sums) {
  for (std::size_t i = 0; i < count; ++i) {
    sums[i] = combine<kHow, Wide>(Element::load(first + i * Element::kBytes),
                                  Element::load(second + i * Element::kBytes));
  }
}

template <class Element, ElementReduction kHow, class Wide = typename Element::Wide>
ATP_VALUE_LOOP [[gnu::noinline]] void combine_next(const std::byte* __restrict next,
                                                   std::size_t count, Wide* __restrict sums) {
  for (std::size_t i = 0; i < count; ++i) {
    sums[i] = combine<kHow, Wide>(sums[i], Element::load(next + i * Element::kBytes));
  }
}

template <class Element, class Wide = typename Element::Wide>
ATP_VALUE_LOOP [[gnu::noinline]] void store_results(const Wide* __restrict sums, std::size_t count,
                                                    std::byte* __restrict out) {
  for (std::size_t i = 0; i < count; ++i) Element::store(out + i * Element::kBytes, sums[i]);
}

template <class Wide>
ATP_VALUE_LOOP [[gnu::noinline]] void divide(Wide* __restrict sums, std::size_t count,
                                             Wide divisor) {
  for (std::size_t i = 0; i < count; ++i) sums[i] /= divisor;
}

// Works on as many columns at a time as fit the first-level cache. `divisor`: of an average.
template <class Element, ElementReduction kHow>
void reduce_all(Operands operands, std::byte* out, std::size_t count, std::size_t divisor = 1) {
  using Wide = typename Element::Wide;
  constexpr std::size_t kColumns = 4096 / sizeof(Wide);
  std::array<Wide, kColumns> sums;
  for (std::size_t begin = 0; begin < count; begin += kColumns) {
    const std::size_t columns = std::min(kColumns, count - begin);
    const std::size_t offset = begin * Element::kBytes;
    if (operands.size() == 1) {
      load_first<Element>(operands[0] + offset, columns, sums.data());
    } else {
      combine_first<Element, kHow>(operands[0] + offset, operands[1] + offset, columns,
                                   sums.data());
    }
    for (std::size_t i = 2; i < operands.size(); ++i) {
      combine_next<Element, kHow>(operands[i] + offset, columns, sums.data());
    }
    if constexpr (std::is_floating_point_v<Wide>) {
      if (divisor > 1) divide(sums.data(), columns, static_cast<Wide>(divisor));
    }
    store_results<Element>(sums.data(), columns, out + offset);
  }
}

// What a reduction means for a type, with as few loops as possible: an operation on bits does not
// depend on the size of the numbers, nor a sum or a product on their sign.
struct Reducer {
  void truths() const {
    using enum ElementReduction;
    if (how == kSum || how == kMax || how == kOr) return reduce_all<Truth, kOr>(from, out, count);
    if (how == kXor) return reduce_all<Truth, kXor>(from, out, count);
    if (how != kAverage) return reduce_all<Truth, kAnd>(from, out, count);
    ATP_CHECK(false);
  }

  template <class T>
  void whole_numbers() const {
    using enum ElementReduction;
    using Unsigned = Plain<std::make_unsigned_t<T>>;
    using Byte = Plain<std::uint8_t>;
    const std::size_t bytes = count * sizeof(T);
    switch (how) {
      case kSum: return reduce_all<Unsigned, kSum>(from, out, count);
      case kProduct: return reduce_all<Unsigned, kProduct>(from, out, count);
      case kMin: return reduce_all<Plain<T>, kMin>(from, out, count);
      case kMax: return reduce_all<Plain<T>, kMax>(from, out, count);
      case kAnd: return reduce_all<Byte, kAnd>(from, out, bytes);
      case kOr: return reduce_all<Byte, kOr>(from, out, bytes);
      case kXor: return reduce_all<Byte, kXor>(from, out, bytes);
      default: ATP_CHECK(false);
    }
  }

  template <class Element>
  void floats() const {
    using enum ElementReduction;
    switch (how) {
      case kSum: return reduce_all<Element, kSum>(from, out, count);
      case kAverage: return reduce_all<Element, kSum>(from, out, count, ranks);
      case kProduct: return reduce_all<Element, kProduct>(from, out, count);
      case kMin: return reduce_all<Element, kMin>(from, out, count);
      case kMax: return reduce_all<Element, kMax>(from, out, count);
      default: ATP_CHECK(false);
    }
  }

  template <class T>
  void complex_numbers() const {
    using enum ElementReduction;
    if (how == kProduct) return reduce_all<Plain<std::complex<T>>, kProduct>(from, out, count);
    Reducer parts = *this;
    parts.count = 2 * count;
    ATP_CHECK(how == kSum || how == kAverage);
    parts.floats<Plain<T>>();
  }

  ElementReduction how;
  Operands from;
  std::size_t ranks;
  std::byte* out;
  std::size_t count;
};

bool is_whole_number(ElementKind kind) {
  return kind >= ElementKind::kBool && kind <= ElementKind::kInt64;
}

bool is_complex(ElementKind kind) {
  return kind == ElementKind::kComplex64 || kind == ElementKind::kComplex128;
}

}  // namespace

std::size_t bytes_of(ElementKind kind) {
  switch (kind) {
    case ElementKind::kByte:
    case ElementKind::kBool:
    case ElementKind::kUint8:
    case ElementKind::kInt8: return 1;
    case ElementKind::kInt16:
    case ElementKind::kFloat16:
    case ElementKind::kBFloat16: return 2;
    case ElementKind::kInt32:
    case ElementKind::kFloat32: return 4;
    case ElementKind::kInt64:
    case ElementKind::kFloat64:
    case ElementKind::kComplex64: return 8;
    case ElementKind::kComplex128: break;
  }
  return 16;
}

std::string_view to_string(ElementKind kind) {
  constexpr std::array<std::string_view, 13> kNames{
      "byte",    "bool",     "uint8",   "int8",    "int16",     "int32",     "int64",
      "float16", "bfloat16", "float32", "float64", "complex64", "complex128"};
  const auto index = static_cast<std::size_t>(kind);
  return index < kNames.size() ? kNames[index] : "unknown";
}

std::string_view to_string(ElementReduction reduction) {
  constexpr std::array<std::string_view, 9> kNames{
      "none", "sum", "average", "product", "minimum", "maximum", "and", "or", "xor"};
  const auto index = static_cast<std::size_t>(reduction);
  return index < kNames.size() ? kNames[index] : "unknown";
}

bool is_any_order(ElementKind kind, ElementReduction reduction) {
  return is_whole_number(kind) && can_reduce(kind, reduction);
}

bool can_reduce(ElementKind kind, ElementReduction reduction) {
  switch (reduction) {
    case ElementReduction::kNone: return true;
    case ElementReduction::kSum:
    case ElementReduction::kProduct: return kind != ElementKind::kByte;
    case ElementReduction::kAverage: return kind != ElementKind::kByte && !is_whole_number(kind);
    case ElementReduction::kMin:
    case ElementReduction::kMax: return kind != ElementKind::kByte && !is_complex(kind);
    case ElementReduction::kAnd:
    case ElementReduction::kOr:
    case ElementReduction::kXor: break;
  }
  return is_whole_number(kind);
}

void reduce_elements(ElementKind kind, ElementReduction reduction,
                     std::span<const std::byte* const> operands, std::size_t ranks, std::byte* out,
                     std::size_t count) {
  if (reduction == ElementReduction::kNone) {
    const std::size_t bytes = count * bytes_of(kind);
    if (bytes > 0 && operands.front() != out) std::memmove(out, operands.front(), bytes);
    return;
  }
  const Reducer reducer{reduction, operands, ranks, out, count};
  switch (kind) {
    case ElementKind::kByte: break;
    case ElementKind::kBool: return reducer.truths();
    case ElementKind::kUint8: return reducer.whole_numbers<std::uint8_t>();
    case ElementKind::kInt8: return reducer.whole_numbers<std::int8_t>();
    case ElementKind::kInt16: return reducer.whole_numbers<std::int16_t>();
    case ElementKind::kInt32: return reducer.whole_numbers<std::int32_t>();
    case ElementKind::kInt64: return reducer.whole_numbers<std::int64_t>();
    case ElementKind::kFloat16: return reducer.floats<Half<element::Float16>>();
    case ElementKind::kBFloat16: return reducer.floats<Half<element::BFloat16>>();
    case ElementKind::kFloat32: return reducer.floats<Plain<float>>();
    case ElementKind::kFloat64: return reducer.floats<Plain<double>>();
    case ElementKind::kComplex64: return reducer.complex_numbers<float>();
    case ElementKind::kComplex128: return reducer.complex_numbers<double>();
  }
  ATP_CHECK(false);
}

}  // namespace atp
