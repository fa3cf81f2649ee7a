#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "atp/base/result.h"

// How elements of all types are combined, one after the other in the order of the operands. Floats
// of 16 bits are combined in float32 and rounded once.

namespace atp {

enum class ElementKind : std::uint8_t {
  kByte,  // only carried
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
  kNone,  // of one operand: a copy
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

// Bytes are only carried; integers have no average, floats no bits, complex numbers no order.
bool can_reduce(ElementKind kind, ElementReduction reduction);

// Writes what becomes of `count` elements of each operand to `out`, which may be one of them.
// Integers wrap around; a minimum or maximum with a NaN is NaN; bool knows true and false only. An
// average is the sum divided by `ranks`.
void reduce_elements(ElementKind kind, ElementReduction reduction,
                     std::span<const std::byte* const> operands, std::size_t ranks, std::byte* out,
                     std::size_t count);

}  // namespace atp
