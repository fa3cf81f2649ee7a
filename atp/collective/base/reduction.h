#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "atp/base/result.h"
#include "atp/wire/number_format.h"

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
// What messages count.
constexpr std::string_view unit_of(ElementKind kind) {
  return kind == ElementKind::kByte ? "byte" : "value";
}

// The type and the reduction as the network and a host's memory know them, if they do.
constexpr std::optional<DataType> data_type_of(ElementKind kind) {
  switch (kind) {
    case ElementKind::kFloat32: return DataType::kFloat32;
    case ElementKind::kBFloat16: return DataType::kBFloat16;
    case ElementKind::kFloat16: return DataType::kFloat16;
    case ElementKind::kInt32: return DataType::kInt32;
    default: return std::nullopt;
  }
}
constexpr bool is_sum(ElementReduction reduction) {
  return reduction == ElementReduction::kSum || reduction == ElementReduction::kAverage;
}
constexpr std::optional<Reduction> wire_reduction_of(ElementReduction reduction) {
  switch (reduction) {
    case ElementReduction::kSum: return Reduction::kSum;
    case ElementReduction::kAverage: return Reduction::kAverage;
    case ElementReduction::kMax: return Reduction::kMax;
    case ElementReduction::kMin: return Reduction::kMin;
    default: return std::nullopt;
  }
}
// Whether such values are combined by the rule of numbers (docs/inside/protocol §5). Others are
// combined as they are, in the order of ranks, and only in a host's memory or by peers.
constexpr bool has_rule(ElementKind kind, ElementReduction reduction) {
  return data_type_of(kind) && wire_reduction_of(reduction);
}
constexpr ElementKind kind_of(DataType type) {
  switch (type) {
    case DataType::kBFloat16: return ElementKind::kBFloat16;
    case DataType::kFloat16: return ElementKind::kFloat16;
    case DataType::kInt32: return ElementKind::kInt32;
    default: return ElementKind::kFloat32;
  }
}
constexpr ElementReduction element_reduction_of(Reduction reduction) {
  switch (reduction) {
    case Reduction::kAverage: return ElementReduction::kAverage;
    case Reduction::kMax: return ElementReduction::kMax;
    case Reduction::kMin: return ElementReduction::kMin;
    default: return ElementReduction::kSum;
  }
}

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
