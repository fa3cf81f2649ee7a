#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "atp/base/result.h"

// Combines elements of all types, in the order of the operands. 16-bit floats are combined in
// float32 and rounded once.

namespace atp {

enum class ElementKind : std::uint8_t {
  kByte,  // never combined
  kBool,
  kUint8,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kFloat16,
  kBFloat16,
  kFloat32,
  kFloat64,
  kComplex64,
  kComplex128,
};

enum class ElementReduction : std::uint8_t {
  kNone,  // a copy of the only operand
  kSum,
  kAverage,
  kProduct,
  kMin,
  kMax,
  kAnd,
  kOr,
  kXor,
};

std::size_t bytes_of(ElementKind kind);
std::string_view to_string(ElementKind kind);
std::string_view to_string(ElementReduction reduction);

// Bytes cannot be combined. Integers have no average, floats no bitwise operations, and complex
// numbers no order.
bool can_reduce(ElementKind kind, ElementReduction reduction);

// Whether the bits of a result do not depend on the order of its operands: so it is with integers,
// which wrap around, and not with floats, whose sums are rounded (and -0 = 0, and NaNs differ).
bool is_any_order(ElementKind kind, ElementReduction reduction);

// Combines `count` elements of each operand into `out`, which may be one of them. Integers wrap
// around; a minimum or maximum with a NaN is NaN; bool results are true or false. An average is the
// sum divided by `ranks`.
void reduce_elements(ElementKind kind, ElementReduction reduction,
                     std::span<const std::byte* const> operands, std::size_t ranks, std::byte* out,
                     std::size_t count);

}  // namespace atp
