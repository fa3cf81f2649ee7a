#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "atp/base/result.h"
#include "atp/wire/number_format.h"

// The names of types, reductions and number formats in messages and options, and which combinations
// are valid.

namespace atp {

// What an operation combines, and the format in which it travels.
struct OperationKind {
  DataType type = DataType::kFloat32;
  Reduction reduction = Reduction::kSum;
  NumberFormat format = NumberFormat::kBlocks;
};

const char* name_of(DataType type);             // float32
const char* name_of(Reduction reduction);       // sum
std::string format_text(std::uint32_t format);  // a NumberFormat: blocks of int32 (wire=int32)

// "the sum of 1,000 float32 values in blocks of int32": what ranks compare when they disagree.
std::string operation_kind_text(std::uint64_t values, const OperationKind& kind);

// The operation that a failure hit: "all_reduce #17 (1,000 values)", or with the caller's tag, if
// it is not 0: "all_reduce #17 (1,000 values, tag 7)". `unit`: instead of values.
std::string operation_text(std::string_view what, std::uint64_t number, std::uint64_t value_count,
                           std::uint32_t tag = 0, std::string_view unit = "value");

// A user's choices about a job's numbers, by the options' names.
struct NumberChoices {
  std::string scale = "blocks";  // or "fixed"
  std::string wire = "int32";    // or "int16"
  bool exact = false;
};
// The format for these choices; an error if two of them are incompatible.
Result<NumberFormat> format_of(const NumberChoices& choices);

// Whether a job with this many ranks can use the format at all.
Status check_format(NumberFormat format, std::size_t world_size);
// Whether a job with this format and size can carry out such an operation. `asked`: the format that
// the operation asks for, if any.
Status check_kind(const OperationKind& kind, NumberFormat of_job, std::optional<NumberFormat> asked,
                  std::size_t world_size);

}  // namespace atp
