#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "atp/base/check.h"
#include "atp/wire/block_values.h"
#include "atp/wire/packet.h"

// How the values of an operation are divided into blocks (docs/inside/protocol §5, *Blocks*).
// Blocks have 256 values and start again with each segment: a tensor of a coalesced operation, or a
// parameter of a bucket. So no block mixes the values of two layers, where the smaller layer's
// would be lost.

namespace atp {

// Consecutive values of one block.
struct BlockRun {
  std::size_t block = 0;
  std::size_t begin = 0;  // values of the operation
  std::size_t end = 0;
  std::size_t length() const { return end - begin; }
};

class BlockLayout {
 public:
  BlockLayout() = default;
  // A layout of one segment.
  explicit BlockLayout(std::size_t values) : values_(values) {}
  // Consecutive segments of these lengths. Empty ones have no block.
  explicit BlockLayout(std::span<const std::size_t> lengths);

  std::size_t values() const { return values_; }
  // The lengths of the segments; empty if there is only one.
  std::vector<std::size_t> lengths() const;
  std::size_t blocks() const {
    return segments_.empty() ? blocks_of(values_) : segments_.back().blocks_end;
  }
  // The whole block that holds the value. Called several times per fragment, so the usual case is
  // here.
  BlockRun block_at(std::size_t value) const {
    ATP_CHECK(value < values_);
    if (!segments_.empty()) return block_in_segment(value);
    const std::size_t number = value / kBlockValues;
    const std::size_t begin = number * kBlockValues;
    return {number, begin, std::min(begin + kBlockValues, values_)};
  }
  BlockRun block(std::size_t number) const;

  // A hash on which all ranks must agree, part of the operation's fingerprint; 0 for one segment.
  std::uint32_t fingerprint() const;

  // The layout of a part that begins and ends at block boundaries.
  BlockLayout part(std::size_t begin, std::size_t end) const;

 private:
  struct Segment {
    std::size_t values_end;
    std::size_t blocks_end;
  };
  static std::size_t blocks_of(std::size_t values) {
    return (values + kBlockValues - 1) / kBlockValues;
  }
  BlockRun run(std::size_t segment, std::size_t value) const;
  BlockRun block_in_segment(std::size_t value) const;

  std::size_t values_ = 0;
  std::vector<Segment> segments_;  // none: a single one
};

}  // namespace atp
