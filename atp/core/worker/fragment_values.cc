// Chooses the number format of a fragment's values and converts them to and from it.
#include "atp/core/worker/fragment_values.h"

#include "atp/core/worker/block_codec.h"
#include "atp/wire/plain_values.h"

namespace atp {
namespace {

NumberFormat format_of(const Operation& operation) {
  return operation.kind == ATP_KIND_SUM_BLOCKS_INT16 ? NumberFormat::kBlocksInt16
                                                     : NumberFormat::kBlocks;
}

BlockCodec codec_of(const Operation& operation, std::size_t world_size, Tensors& tensors) {
  return {operation.spec.type, world_size, format_of(operation), tensors.layout(operation.id),
          tensors.exponents(operation.id)};
}

std::span<const float> floats(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float)};
}

std::span<float> floats(std::span<std::byte> bytes) {
  return {reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float)};
}

}  // namespace

FragmentShape FragmentValues::shape(const Operation& operation, std::uint64_t sequence,
                                    Tensors& tensors) const {
  FragmentShape shape{operation.kind, static_cast<std::uint16_t>(operation.length(sequence))};
  // (A fragment of 16-bit values has too many values to send them as floats.)
  if (operation.kind != ATP_KIND_SUM_BLOCKS) return shape;
  const std::size_t begin = operation.offset(sequence);
  const std::size_t end = begin + operation.length(sequence);
  if (codec_of(operation, world_size_, tensors).holds_special(begin, end)) {
    shape.kind = ATP_KIND_SUM_EXACT;
  }
  return shape;
}

Quantized FragmentValues::write(const Operation& operation, std::uint64_t sequence,
                                std::uint8_t kind, bool as_floats, Tensors& tensors,
                                std::uint8_t* at) const {
  const DataType type = operation.spec.type;
  const std::size_t offset = operation.offset(sequence);
  const std::size_t count = operation.length(sequence);
  const std::span<const std::byte> input = tensors.input(operation.id);
  if (operation.part == OperationPart::kExponents) {
    write_exponents(type, tensors.layout(operation.id), offset, count, input.data(), at);
    return {};
  }
  if (operation.in_blocks()) {
    const auto as =
        kind == ATP_KIND_SUM_EXACT ? BlockCodec::As::kFloats : BlockCodec::As::kIntegers;
    codec_of(operation, world_size_, tensors).write(offset, offset + count, as, input.data(), at);
    return {};
  }
  const auto values = input.subspan(bytes_of(type) * offset, bytes_of(type) * count);
  if (kind == ATP_KIND_SUM_EXACT || as_floats) {
    write_floats(type, values.data(), count, at);
  } else if (kind == ATP_KIND_SUM_FIXED) {
    return quantize(floats(values), fixed_scale_, at);
  } else {
    write_plain(type, operation.spec.reduction, values.data(), count, at);
  }
  return {};
}

void FragmentValues::read(const Operation& operation, std::uint64_t sequence, std::uint8_t kind,
                          bool as_floats, const std::uint8_t* at, Tensors& tensors) const {
  const DataType type = operation.spec.type;
  const std::size_t offset = operation.offset(sequence);
  const std::size_t count = operation.length(sequence);
  if (operation.part == OperationPart::kExponents) {
    read_exponents(at, tensors.exponents(operation.id).subspan(offset, count));
    return;
  }
  const std::span<std::byte> output = tensors.output(operation.id);
  const float divisor = divisor_of(operation.spec);
  if (operation.in_blocks() && kind != ATP_KIND_SUM_EXACT) {
    codec_of(operation, world_size_, tensors)
        .read(offset, offset + count, divisor, at, output.data());
    return;
  }
  const auto values = output.subspan(bytes_of(type) * offset, bytes_of(type) * count);
  if (kind == ATP_KIND_SUM_EXACT || as_floats) {
    read_floats(at, count, divisor, type, values.data());
  } else if (kind == ATP_KIND_SUM_FIXED) {
    dequantize(at, fixed_scale_, static_cast<double>(divisor), floats(values));
  } else {
    read_plain(type, operation.spec.reduction, at, count, values.data());
  }
}

}  // namespace atp
