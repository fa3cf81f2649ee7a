// Runs the block arithmetic over any range of values, block by block, each with its own unit.
#include "atp/core/worker/block_codec.h"

#include <algorithm>
#include <cstring>

#include "atp/wire/values.h"

namespace atp {
namespace {

// Calls act(run) for each block, or part of one, from `begin` to `end`.
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

// Prefetches values. They were last read for their exponents a round trip ago and have left the
// caches since, and a fragment ends before the hardware prefetcher starts.
void fetch_ahead(const std::byte* values) {
  constexpr std::size_t kAhead = 2 * kBlockValues * sizeof(float);
  constexpr std::size_t kLine = 64;
  for (std::size_t at = 0; at < kBlockValues * sizeof(float); at += kLine) {
    __builtin_prefetch(values + kAhead + at);
  }
}

// Maps a number from the wire to the nearest valid one.
std::int16_t block_number(std::int16_t agreed) {
  if (agreed > kHighestExponent) return kSpecialBlock;
  return agreed < kLowestExponent ? kZeroBlock : agreed;
}

}  // namespace

void write_exponents(DataType type, const BlockLayout& layout, std::size_t first, std::size_t count,
                     const std::byte* tensor, std::uint8_t* at) {
  if (count == 0) return;
  BlockRun block = layout.block(first);
  for (std::size_t i = 0; i < count; ++i) {
    if (i > 0) block = layout.block_at(block.end);
    const std::int16_t exponent =
        block_exponent(type, tensor + bytes_of(type) * block.begin, block.length());
    store_value16(at + 2 * i, static_cast<std::uint16_t>(exponent));
  }
}

void read_exponents(const std::uint8_t* at, std::span<std::int16_t> agreed) {
  for (std::size_t i = 0; i < agreed.size(); ++i) {
    agreed[i] = block_number(static_cast<std::int16_t>(load_value16(at + 2 * i)));
  }
}

bool BlockCodec::holds_special(std::size_t begin, std::size_t end) const {
  const std::size_t first = layout_.block_at(begin).block;
  const std::size_t last = layout_.block_at(end - 1).block;
  const auto of_range = exponents_.subspan(first, last - first + 1);
  return std::find(of_range.begin(), of_range.end(), kSpecialBlock) != of_range.end();
}

void BlockCodec::write(std::size_t begin, std::size_t end, As as, const std::byte* tensor,
                       std::uint8_t* at) const {
  const std::size_t lane = as == As::kFloats ? 4 : lane_bytes();
  for_each_run(layout_, begin, end, [&](const BlockRun& run) {
    fetch_ahead(tensor + bytes_of(type_) * run.begin);
    write_run(run, as, tensor + bytes_of(type_) * run.begin, at);
    at += lane * run.length();
  });
}

void BlockCodec::write_run(const BlockRun& run, As as, const std::byte* values,
                           std::uint8_t* at) const {
  const std::int16_t exponent = exponents_[run.block];
  const std::size_t count = run.length();
  const std::size_t lane = as == As::kFloats ? 4 : lane_bytes();
  if (exponent == kSpecialBlock && as == As::kFloats) {
    write_floats(type_, values, count, at);
  } else if (exponent == kSpecialBlock && format_ == NumberFormat::kBlocksInt16) {
    write_classes(type_, values, count, at);
  } else if (exponent == kSpecialBlock || exponent == kZeroBlock) {
    std::memset(at, 0, lane * count);
  } else {
    const BlockUnit unit(exponent, world_size_, format_);
    as == As::kFloats ? round_to_units(type_, values, count, unit, at)
                      : quantize(type_, values, count, unit, format_, at);
  }
}

void BlockCodec::read(std::size_t begin, std::size_t end, float divisor, const std::uint8_t* at,
                      std::byte* tensor) const {
  for_each_run(layout_, begin, end, [&](const BlockRun& run) {
    fetch_ahead(tensor + bytes_of(type_) * run.begin);
    read_run(run, divisor, at, tensor + bytes_of(type_) * run.begin);
    at += lane_bytes() * run.length();
  });
}

void BlockCodec::read_run(const BlockRun& run, float divisor, const std::uint8_t* at,
                          std::byte* values) const {
  const std::int16_t exponent = exponents_[run.block];
  if (exponent == kZeroBlock) {
    std::memset(values, 0, bytes_of(type_) * run.length());
  } else if (exponent != kSpecialBlock) {
    const BlockUnit unit(exponent, world_size_, format_);
    dequantize(at, run.length(), unit, format_, divisor, type_, values);
  } else if (format_ == NumberFormat::kBlocksInt16) {
    read_classes(at, run.length(), type_, values);
  }
}

}  // namespace atp
