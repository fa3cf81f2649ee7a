#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "atp/core/worker/block_layout.h"
#include "atp/wire/block_values.h"

// Converts any range of a tensor's values in blocks to the wire's form and back
// (docs/inside/protocol §5, *Blocks*). The number that the ranks agreed on for a block decides how
// its values are written and read. The arithmetic of one block is in wire/block_values.h. Jobs with
// a server and rings both use this.

namespace atp {

// Writes this rank's exponents of `count` blocks from `first` on, two bytes each.
void write_exponents(DataType type, const BlockLayout& layout, std::size_t first, std::size_t count,
                     const std::byte* tensor, std::uint8_t* at);
// Reads the agreed exponents and replaces invalid ones.
void read_exponents(const std::uint8_t* at, std::span<std::int16_t> agreed);

class BlockCodec {
 public:
  // How values travel. In 32 bits, a range with a part of a special block travels as exact floats.
  enum class As : std::uint8_t { kIntegers, kFloats };

  // `format`: kBlocks or kBlocksInt16. `exponents`: as agreed, one per block of the layout.
  BlockCodec(DataType type, std::size_t world_size, NumberFormat format, const BlockLayout& layout,
             std::span<const std::int16_t> exponents)
      : type_(type),
        world_size_(world_size),
        format_(format),
        layout_(layout),
        exponents_(exponents) {}

  // Bytes per integer.
  std::size_t lane_bytes() const { return format_ == NumberFormat::kBlocks ? 4 : 2; }

  // Whether one of the values from `begin` to `end` is in a special block.
  bool holds_special(std::size_t begin, std::size_t end) const;

  // Writes the values of `tensor` from `begin` to `end`. As 32-bit integers, those of special
  // blocks are zeros, because they are summed separately.
  void write(std::size_t begin, std::size_t end, As as, const std::byte* tensor,
             std::uint8_t* at) const;

  // Reads sums of what write() wrote, and stores them in `tensor`, divided by `divisor`. Leaves the
  // values of special blocks alone if they are summed separately.
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
