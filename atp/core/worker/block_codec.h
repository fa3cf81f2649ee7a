#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "atp/core/worker/block_layout.h"
#include "atp/wire/block_values.h"

// The values of a tensor in blocks, any consecutive ones of them, as what travels and back
// (docs/protocol.md §5, *Blocks*): what a block is agreed on decides how its values are written and
// read. The arithmetic of a block is in wire/block_values.h. Whoever sums contributions, switches
// and server or a ring, does it with these.

namespace atp {

// Writes what this rank has to say of `count` blocks from `first` on, two bytes each.
void write_exponents(DataType type, const BlockLayout& layout, std::size_t first, std::size_t count,
                     const std::byte* tensor, std::uint8_t* at);
// Reads what was agreed on, as one of the numbers that there are.
void read_exponents(const std::uint8_t* at, std::span<std::int16_t> agreed);

class BlockCodec {
 public:
  // As what values travel. Exact floats are for what holds a part of a special block, in 32 bits.
  enum class As : std::uint8_t { kIntegers, kFloats };

  // `format`: kBlocks or kBlocksInt16. `exponents`: as agreed, one for each block of the layout.
  BlockCodec(DataType type, std::size_t world_size, NumberFormat format, const BlockLayout& layout,
             std::span<const std::int16_t> exponents)
      : type_(type),
        world_size_(world_size),
        format_(format),
        layout_(layout),
        exponents_(exponents) {}

  // Bytes of an integer.
  std::size_t lane_bytes() const { return format_ == NumberFormat::kBlocks ? 4 : 2; }

  // Whether one of the values from `begin` to `end` is in a special block.
  bool holds_special(std::size_t begin, std::size_t end) const;

  // Writes the values of `tensor` from `begin` to `end`. As integers of 32 bits those of special
  // blocks are zeros, as their sums are made apart.
  void write(std::size_t begin, std::size_t end, As as, const std::byte* tensor,
             std::uint8_t* at) const;

  // Takes sums of integers into `tensor`, as write() has written contributions, divided by
  // `divisor`. Leaves the values of special blocks alone if they are made apart.
  void read(std::size_t begin, std::size_t end, float divisor, const std::uint8_t* at,
            std::byte* tensor) const;

 private:
  void write_run(const BlockRun& run, As as, const std::byte* values, std::uint8_t* at) const;
  void read_run(const BlockRun& run, float divisor, const std::uint8_t* at,
                std::byte* values) const;

  DataType type_;
  std::size_t world_size_;
  NumberFormat format_;
  const BlockLayout& layout_;
  std::span<const std::int16_t> exponents_;
};

}  // namespace atp
