#include "atp/core/worker/fragment_values.h"

#include <cstring>

#include "atp/wire/block_values.h"
#include "atp/wire/plain_values.h"
#include "atp/wire/values.h"

namespace atp {
namespace {

NumberFormat format_of(const Operation& operation) {
  return operation.kind == ATP_KIND_SUM_BLOCKS_INT16 ? NumberFormat::kBlocksInt16
                                                     : NumberFormat::kBlocks;
}

// Calls act(run) for the parts of blocks that the fragment holds, with `block` its number.
template <class Act>
void for_each_run(const BlockLayout& layout, std::size_t begin, std::size_t end, Act&& act) {
  for (std::size_t at = begin; at < end;) {
    BlockRun run = layout.block_at(at);
    run.begin = at;
    run.end = std::min(run.end, end);
    act(run);
    at = run.end;
  }
}

// What came from the wire, as one of the numbers that there are.
std::int16_t block_number(std::int16_t agreed) {
  if (agreed > kHighestExponent) return kSpecialBlock;
  return agreed < kLowestExponent ? kZeroBlock : agreed;
}

// Of the others the values are zeros, or travel as they are.
bool is_ordinary(std::int16_t exponent) {
  return exponent != kZeroBlock && exponent != kSpecialBlock;
}

bool holds_special_block(const Operation& operation, std::uint64_t sequence, Tensors& tensors) {
  const BlockLayout& layout = tensors.layout(operation.id);
  const std::span<const std::int16_t> exponents = tensors.exponents(operation.id);
  const std::size_t begin = operation.offset(sequence);
  const std::size_t last = begin + operation.length(sequence) - 1;
  const std::size_t end = layout.block_at(last).block;
  for (std::size_t block = layout.block_at(begin).block; block <= end; ++block) {
    if (exponents[block] == kSpecialBlock) return true;
  }
  return false;
}

std::span<const float> floats(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float)};
}

std::span<float> floats(std::span<std::byte> bytes) {
  return {reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float)};
}

}  // namespace

FragmentShape FragmentValues::shape(const Operation& operation, std::uint64_t sequence,
                                    Tensors& tensors) {
  FragmentShape shape{operation.kind, static_cast<std::uint16_t>(operation.length(sequence))};
  // (In 16 bits a fragment has more values than as many bytes hold floats.)
  if (operation.kind == ATP_KIND_SUM_BLOCKS && holds_special_block(operation, sequence, tensors)) {
    shape.kind = ATP_KIND_SUM_EXACT;
  }
  return shape;
}

void FragmentValues::write_exponents(const Operation& operation, std::uint64_t sequence,
                                     Tensors& tensors, std::uint8_t* at) const {
  const BlockLayout& layout = tensors.layout(operation.id);
  const std::byte* input = tensors.input(operation.id).data();
  const std::size_t size = bytes_of(operation.spec.type);
  const std::size_t first = operation.offset(sequence);
  const std::size_t count = operation.length(sequence);
  BlockRun block = layout.block(first);
  for (std::size_t i = 0; i < count; ++i) {
    if (i > 0) block = layout.block_at(block.end);
    const std::int16_t exponent =
        block_exponent(operation.spec.type, input + size * block.begin, block.length());
    store_value16(at + 2 * i, static_cast<std::uint16_t>(exponent));
  }
}

void FragmentValues::write_blocks(const Operation& operation, std::uint64_t sequence, bool floats,
                                  Tensors& tensors, std::uint8_t* at) const {
  const DataType type = operation.spec.type;
  const NumberFormat format = format_of(operation);
  const std::size_t lane = floats || format == NumberFormat::kBlocks ? 4 : 2;
  const std::span<const std::int16_t> exponents = tensors.exponents(operation.id);
  const std::byte* input = tensors.input(operation.id).data();
  const std::size_t begin = operation.offset(sequence);
  const std::size_t end = begin + operation.length(sequence);
  for_each_run(tensors.layout(operation.id), begin, end, [&](const BlockRun& run) {
    const std::byte* values = input + bytes_of(type) * run.begin;
    const std::int16_t exponent = exponents[run.block];
    if (exponent == kZeroBlock) {
      std::memset(at, 0, lane * run.length());
    } else if (exponent == kSpecialBlock) {
      format == NumberFormat::kBlocks ? write_floats(type, values, run.length(), at)
                                      : write_classes(type, values, run.length(), at);
    } else {
      const BlockUnit unit(exponent, world_size_, format);
      floats ? round_to_units(type, values, run.length(), unit, at)
             : quantize(type, values, run.length(), unit, format, at);
    }
    at += lane * run.length();
  });
}

void FragmentValues::read_blocks(const Operation& operation, std::uint64_t sequence,
                                 Tensors& tensors, const std::uint8_t* at) const {
  const DataType type = operation.spec.type;
  const NumberFormat format = format_of(operation);
  const std::size_t lane = format == NumberFormat::kBlocks ? 4 : 2;
  const std::span<const std::int16_t> exponents = tensors.exponents(operation.id);
  std::byte* output = tensors.output(operation.id).data();
  const std::size_t begin = operation.offset(sequence);
  const std::size_t end = begin + operation.length(sequence);
  for_each_run(tensors.layout(operation.id), begin, end, [&](const BlockRun& run) {
    std::byte* values = output + bytes_of(type) * run.begin;
    if (is_ordinary(exponents[run.block])) {
      const BlockUnit unit(exponents[run.block], world_size_, format);
      dequantize(at, run.length(), unit, format, divisor_of(operation.spec), type, values);
    } else if (exponents[run.block] == kSpecialBlock) {
      read_classes(at, run.length(), type, values);
    } else {
      std::memset(values, 0, bytes_of(type) * run.length());
    }
    at += lane * run.length();
  });
}

Quantized FragmentValues::write(const Operation& operation, std::uint64_t sequence,
                                std::uint8_t kind, bool as_floats, Tensors& tensors,
                                std::uint8_t* at) const {
  if (operation.part == OperationPart::kExponents) {
    write_exponents(operation, sequence, tensors, at);
    return {};
  }
  if (operation.in_blocks()) {
    write_blocks(operation, sequence, kind == ATP_KIND_SUM_EXACT, tensors, at);
    return {};
  }
  const DataType type = operation.spec.type;
  const std::size_t count = operation.length(sequence);
  const auto values = tensors.input(operation.id)
                          .subspan(bytes_of(type) * operation.offset(sequence),
                                   bytes_of(type) * count);
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
    const auto agreed = tensors.exponents(operation.id).subspan(offset, count);
    for (std::size_t i = 0; i < count; ++i) {
      agreed[i] = block_number(static_cast<std::int16_t>(load_value16(at + 2 * i)));
    }
    return;
  }
  if (operation.in_blocks() && kind != ATP_KIND_SUM_EXACT) {
    read_blocks(operation, sequence, tensors, at);
    return;
  }
  const auto values =
      tensors.output(operation.id).subspan(bytes_of(type) * offset, bytes_of(type) * count);
  const float divisor = divisor_of(operation.spec);
  if (kind == ATP_KIND_SUM_EXACT || as_floats) {
    read_floats(at, count, divisor, type, values.data());
  } else if (kind == ATP_KIND_SUM_FIXED) {
    dequantize(at, fixed_scale_, static_cast<double>(divisor), floats(values));
  } else {
    read_plain(type, operation.spec.reduction, at, count, values.data());
  }
}

}  // namespace atp
