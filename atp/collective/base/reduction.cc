// One loop per element type and reduction, and the table that chooses it.
#include "atp/collective/base/reduction.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <cstring>
#include <type_traits>

#include "atp/base/check.h"
#include "atp/wire/element.h"

namespace atp {
namespace {

// How many elements, with their operands, fit the first-level cache.
constexpr std::size_t kBlock = 512;

template <class T>
struct Plain {
  using Wide = T;
  static constexpr std::size_t kBytes = sizeof(T);
  static Wide load(const std::byte* at) {
    T value;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  static void store(std::byte* at, Wide value) { std::memcpy(at, &value, sizeof value); }
};

struct Truth {
  using Wide = bool;
  static constexpr std::size_t kBytes = 1;
  static Wide load(const std::byte* at) { return *at != std::byte{0}; }
  static void store(std::byte* at, Wide value) { *at = value ? std::byte{1} : std::byte{0}; }
};

template <class Narrow>
struct Half {
  using Wide = float;
  static constexpr std::size_t kBytes = 2;
  static Wide load(const std::byte* at) { return Narrow::load(at); }
  static void store(std::byte* at, Wide value) { Narrow::store(at, value); }
};

template <class T>
constexpr bool kIsComplex = false;
template <class T>
constexpr bool kIsComplex<std::complex<T>> = true;

// Signed overflow is undefined, so add as unsigned, which wraps around to the same bits.
template <class T>
auto wrapping(T value) {
  if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
    return static_cast<std::uint64_t>(value);
  } else {
    return value;
  }
}

template <class T>
T product(T a, T b) {
  if constexpr (kIsComplex<T>) {
    // The plain formula, as in torch: std::complex checks for infinities and calls a library.
    return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
  } else {
    return static_cast<T>(wrapping(a) * wrapping(b));
  }
}

template <class T>
bool is_nan(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::isnan(value);
  } else {
    return false;
  }
}

template <class T>
T combine(std::integral_constant<ElementReduction, ElementReduction::kSum> /*how*/, T a, T b) {
  if constexpr (std::is_same_v<T, bool>) {
    return a || b;
  } else {
    return static_cast<T>(wrapping(a) + wrapping(b));
  }
}
template <class T>
T combine(std::integral_constant<ElementReduction, ElementReduction::kProduct> /*how*/, T a, T b) {
  if constexpr (std::is_same_v<T, bool>) {
    return a && b;
  } else {
    return product(a, b);
  }
}
template <class T>
T combine(std::integral_constant<ElementReduction, ElementReduction::kMin> /*how*/, T a, T b) {
  return is_nan(a) || a <= b ? a : b;
}
template <class T>
T combine(std::integral_constant<ElementReduction, ElementReduction::kMax> /*how*/, T a, T b) {
  return is_nan(a) || a >= b ? a : b;
}
template <class T>
T combine(std::integral_constant<ElementReduction, ElementReduction::kAnd> /*how*/, T a, T b) {
  return static_cast<T>(a & b);
}
template <class T>
T combine(std::integral_constant<ElementReduction, ElementReduction::kOr> /*how*/, T a, T b) {
  return static_cast<T>(a | b);
}
template <class T>
T combine(std::integral_constant<ElementReduction, ElementReduction::kXor> /*how*/, T a, T b) {
  return static_cast<T>(a ^ b);
}

// The divisor as the value's type.
template <class T>
struct RealOf {
  using Type = T;
};
template <class T>
struct RealOf<std::complex<T>> {
  using Type = T;
};

template <class Element, ElementReduction kHow>
void reduce_block(std::span<const std::byte* const> operands, std::size_t begin, std::size_t count,
                  std::byte* out, std::size_t divisor) {
  using Wide = typename Element::Wide;
  constexpr std::integral_constant<ElementReduction, kHow> kChosen;
  std::array<Wide, kBlock> sums;
  const std::byte* first = operands.front() + begin * Element::kBytes;
  for (std::size_t i = 0; i < count; ++i) sums[i] = Element::load(first + i * Element::kBytes);
  for (const std::byte* operand : operands.subspan(1)) {
    const std::byte* at = operand + begin * Element::kBytes;
    for (std::size_t i = 0; i < count; ++i) {
      sums[i] = combine<Wide>(kChosen, sums[i], Element::load(at + i * Element::kBytes));
    }
  }
  if constexpr (!std::is_integral_v<Wide>) {
    if (divisor > 1) {
      const auto real = static_cast<typename RealOf<Wide>::Type>(divisor);
      for (std::size_t i = 0; i < count; ++i) sums[i] /= real;
    }
  }
  std::byte* to = out + begin * Element::kBytes;
  for (std::size_t i = 0; i < count; ++i) Element::store(to + i * Element::kBytes, sums[i]);
}

template <class Element, ElementReduction kHow>
void reduce_all(std::span<const std::byte* const> operands, std::byte* out, std::size_t count,
                std::size_t divisor = 1) {
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    reduce_block<Element, kHow>(operands, begin, std::min(kBlock, count - begin), out, divisor);
  }
}

template <class Element>
void reduce_elements_of(ElementReduction reduction, std::span<const std::byte* const> operands,
                        std::size_t ranks, std::byte* out, std::size_t count) {
  using Wide = typename Element::Wide;
  using enum ElementReduction;
  if (reduction == kSum) return reduce_all<Element, kSum>(operands, out, count);
  if (reduction == kProduct) return reduce_all<Element, kProduct>(operands, out, count);
  if constexpr (!kIsComplex<Wide>) {
    if (reduction == kMin) return reduce_all<Element, kMin>(operands, out, count);
    if (reduction == kMax) return reduce_all<Element, kMax>(operands, out, count);
  }
  if constexpr (std::is_integral_v<Wide>) {
    if (reduction == kAnd) return reduce_all<Element, kAnd>(operands, out, count);
    if (reduction == kOr) return reduce_all<Element, kOr>(operands, out, count);
    if (reduction == kXor) return reduce_all<Element, kXor>(operands, out, count);
  } else {
    if (reduction == kAverage) return reduce_all<Element, kSum>(operands, out, count, ranks);
  }
  ATP_CHECK(false);
}

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
  switch (kind) {
    case ElementKind::kByte: break;
    case ElementKind::kBool:
      return reduce_elements_of<Truth>(reduction, operands, ranks, out, count);
    case ElementKind::kUint8:
      return reduce_elements_of<Plain<std::uint8_t>>(reduction, operands, ranks, out, count);
    case ElementKind::kInt8:
      return reduce_elements_of<Plain<std::int8_t>>(reduction, operands, ranks, out, count);
    case ElementKind::kInt16:
      return reduce_elements_of<Plain<std::int16_t>>(reduction, operands, ranks, out, count);
    case ElementKind::kInt32:
      return reduce_elements_of<Plain<std::int32_t>>(reduction, operands, ranks, out, count);
    case ElementKind::kInt64:
      return reduce_elements_of<Plain<std::int64_t>>(reduction, operands, ranks, out, count);
    case ElementKind::kFloat16:
      return reduce_elements_of<Half<element::Float16>>(reduction, operands, ranks, out, count);
    case ElementKind::kBFloat16:
      return reduce_elements_of<Half<element::BFloat16>>(reduction, operands, ranks, out, count);
    case ElementKind::kFloat32:
      return reduce_elements_of<Plain<float>>(reduction, operands, ranks, out, count);
    case ElementKind::kFloat64:
      return reduce_elements_of<Plain<double>>(reduction, operands, ranks, out, count);
    case ElementKind::kComplex64:
      return reduce_elements_of<Plain<std::complex<float>>>(reduction, operands, ranks, out, count);
    case ElementKind::kComplex128:
      return reduce_elements_of<Plain<std::complex<double>>>(reduction, operands, ranks, out,
                                                             count);
  }
  ATP_CHECK(false);
}

}  // namespace atp
