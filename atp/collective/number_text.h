#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "atp/base/result.h"
#include "atp/wire/number_format.h"

// How types, reductions and number formats are called in messages and options, and which of them go
// together.

namespace atp {

// What an operation combines, and as what it travels.
struct OperationKind {
  DataType type = DataType::kFloat32;
  Reduction reduction = Reduction::kSum;
  NumberFormat format = NumberFormat::kBlocks;
};

const char* name_of(DataType type);            // float32
const char* name_of(Reduction reduction);      // sum
std::string format_text(std::uint32_t format);  // a NumberFormat: blocks of int32 (ATP_SCALE=blocks)

// "the sum of 1,000 float32 values in blocks of int32": what ranks compare when they disagree.
std::string operation_kind_text(std::uint64_t values, const OperationKind& kind);

// What people say about a job's numbers, each by the name under which they said it.
struct NumberChoices {
  std::string scale = "blocks";  // or "fixed"
  std::string wire = "int32";    // or "int16"
  bool exact = false;
};
// The one format that they mean; an error where two of them exclude each other.
Result<NumberFormat> format_of(const NumberChoices& choices);

// Whether a job of so many ranks can have the format at all.
Status check_format(NumberFormat format, std::size_t world_size);
// Whether a job of that format and size can carry out such an operation. `asked`: the format that
// the operation has asked for, if any.
Status check_kind(const OperationKind& kind, NumberFormat of_job,
                  std::optional<NumberFormat> asked, std::size_t world_size);

}  // namespace atp
