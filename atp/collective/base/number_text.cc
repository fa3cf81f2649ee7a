// The texts for types, reductions and formats, and the checks of combinations.
#include "atp/collective/base/number_text.h"

#include "atp/base/text.h"

namespace atp {
namespace {

// Whether it travels as plain integers, whatever the job's format: integers, minimum and maximum.
bool is_plain(const OperationKind& kind) {
  return !is_sum(kind.reduction) || !is_floating(kind.type);
}

const char* carrier_of(NumberFormat format) {
  switch (format) {
    case NumberFormat::kFixed: return " with the fixed scale";
    case NumberFormat::kBlocks: return " in blocks of int32";
    case NumberFormat::kBlocksInt16: return " in blocks of int16";
    case NumberFormat::kExact: return "";
    default: return " in an unknown format";
  }
}

}  // namespace

const char* name_of(DataType type) {
  switch (type) {
    case DataType::kFloat32: return "float32";
    case DataType::kBFloat16: return "bfloat16";
    case DataType::kFloat16: return "float16";
    case DataType::kInt32: return "int32";
  }
  return "unknown";
}

const char* name_of(Reduction reduction) {
  switch (reduction) {
    case Reduction::kSum: return "sum";
    case Reduction::kAverage: return "average";
    case Reduction::kMax: return "maximum";
    case Reduction::kMin: return "minimum";
  }
  return "unknown reduction";
}

std::string format_text(std::uint32_t format) {
  switch (static_cast<NumberFormat>(format)) {
    case NumberFormat::kFixed: return "a fixed scale (scale=fixed)";
    case NumberFormat::kBlocks: return "blocks of int32 (wire=int32)";
    case NumberFormat::kBlocksInt16: return "blocks of int16 (wire=int16)";
    case NumberFormat::kExact: return "exact sums (exact=1)";
    default:
      return "number format " + std::to_string(format) + ", which is unknown to this program";
  }
}

std::string operation_text(std::string_view what, std::uint64_t number, std::uint64_t value_count,
                           std::uint32_t tag, std::string_view unit) {
  return std::string(what) + " #" + std::to_string(number) + " (" + with_commas(value_count) + " " +
         std::string(unit) + (value_count == 1 ? "" : "s") +
         (tag == 0 ? "" : ", tag " + std::to_string(tag)) + ")";
}

std::string operation_kind_text(std::uint64_t values, const OperationKind& kind) {
  const bool is_exact = !is_plain(kind) && kind.format == NumberFormat::kExact;
  return std::string(is_exact ? "the exact " : "the ") + name_of(kind.reduction) + " of " +
         with_commas(values) + " " + name_of(kind.type) + (values == 1 ? " value" : " values") +
         (is_plain(kind) ? "" : carrier_of(kind.format));
}

Result<NumberFormat> format_of(const NumberChoices& choices) {
  const bool fixed = choices.scale == "fixed";
  const bool narrow = choices.wire == "int16";
  if (fixed && (narrow || choices.exact)) {
    return Error{std::string("scale=fixed is the paper's format (float32 sent as int32) and cannot "
                             "be combined with ") +
                 (narrow ? "wire=int16" : "exact=1") + ": choose scale=blocks, or drop the other"};
  }
  if (narrow && choices.exact) {
    return Error{"exact=1 sends float32 and wire=int16 sends int16: choose one of them"};
  }
  if (fixed) return NumberFormat::kFixed;
  if (narrow) return NumberFormat::kBlocksInt16;
  return choices.exact ? NumberFormat::kExact : NumberFormat::kBlocks;
}

Status check_format(NumberFormat format, std::size_t world_size) {
  if (format != NumberFormat::kBlocksInt16 || world_size <= kMaxRanksOfInt16) return ok_status();
  return Error{"wire=int16 leaves each of " + with_commas(world_size) +
               " ranks too few bits; it is possible with up to " +
               std::to_string(kMaxRanksOfInt16) + " ranks: use wire=int32"};
}

Status check_kind(const OperationKind& kind, NumberFormat of_job, std::optional<NumberFormat> asked,
                  std::size_t world_size) {
  if (kind.reduction == Reduction::kAverage && !is_floating(kind.type)) {
    return Error{
        "int32 has no average, because the average may not be an integer: request the sum and "
        "divide it, or convert the values to float32"};
  }
  if (is_plain(kind)) return ok_status();
  if (of_job == NumberFormat::kFixed && kind.type != DataType::kFloat32) {
    return Error{std::string("a job with scale=fixed sums float32 and int32, and this is ") +
                 name_of(kind.type) + ": convert it to float32, or use scale=blocks"};
  }
  if (!asked || *asked == of_job) return ok_status();
  if (of_job == NumberFormat::kFixed || *asked == NumberFormat::kFixed) {
    return Error{"this operation asks for " + format_text(static_cast<std::uint32_t>(*asked)) +
                 ", and the job was started with " +
                 format_text(static_cast<std::uint32_t>(of_job)) +
                 ": a fixed scale is a choice for the whole job"};
  }
  return check_format(*asked, world_size);
}

}  // namespace atp
