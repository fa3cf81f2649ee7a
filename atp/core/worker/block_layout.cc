#include "atp/core/worker/block_layout.h"

namespace atp {

BlockLayout::BlockLayout(std::span<const std::size_t> lengths) {
  std::size_t blocks = 0;
  for (const std::size_t length : lengths) {
    if (length == 0) continue;
    values_ += length;
    blocks += blocks_of(length);
    segments_.push_back({values_, blocks});
  }
  if (segments_.size() <= 1) segments_.clear();
}

std::vector<std::size_t> BlockLayout::lengths() const {
  std::vector<std::size_t> lengths;
  std::size_t begin = 0;
  for (const Segment& segment : segments_) {
    lengths.push_back(segment.values_end - begin);
    begin = segment.values_end;
  }
  return lengths;
}

// The block of this segment that holds the value.
BlockRun BlockLayout::run(std::size_t segment, std::size_t value) const {
  const std::size_t begin = segment == 0 ? 0 : segments_[segment - 1].values_end;
  const std::size_t first_block = segment == 0 ? 0 : segments_[segment - 1].blocks_end;
  const std::size_t end = segments_.empty() ? values_ : segments_[segment].values_end;
  const std::size_t number = (value - begin) / kBlockValues;
  const std::size_t at = begin + number * kBlockValues;
  return {first_block + number, at, std::min(at + kBlockValues, end)};
}

BlockRun BlockLayout::block_in_segment(std::size_t value) const {
  const auto found = std::upper_bound(
      segments_.begin(), segments_.end(), value,
      [](std::size_t v, const Segment& segment) { return v < segment.values_end; });
  return run(static_cast<std::size_t>(found - segments_.begin()), value);
}

BlockRun BlockLayout::block(std::size_t number) const {
  ATP_CHECK(number < blocks());
  if (segments_.empty()) return run(0, number * kBlockValues);
  const auto found = std::upper_bound(
      segments_.begin(), segments_.end(), number,
      [](std::size_t n, const Segment& segment) { return n < segment.blocks_end; });
  const auto segment = static_cast<std::size_t>(found - segments_.begin());
  const std::size_t begin = segment == 0 ? 0 : segments_[segment - 1].values_end;
  const std::size_t first_block = segment == 0 ? 0 : segments_[segment - 1].blocks_end;
  return run(segment, begin + (number - first_block) * kBlockValues);
}

std::uint32_t BlockLayout::fingerprint() const {
  std::uint32_t hash = 0;
  for (const Segment& segment : segments_) {
    const std::uint64_t end = segment.values_end;
    hash = atp_fmix32(hash ^ static_cast<std::uint32_t>(end)) + 0x9e3779b9U;
    hash = atp_fmix32(hash ^ static_cast<std::uint32_t>(end >> 32)) + 0x9e3779b9U;
  }
  return hash;
}

BlockLayout BlockLayout::part(std::size_t begin, std::size_t end) const {
  if (segments_.empty()) return BlockLayout(end - begin);
  std::vector<std::size_t> lengths;
  std::size_t at = begin;
  for (const Segment& segment : segments_) {
    if (segment.values_end <= at) continue;
    const std::size_t stop = std::min(segment.values_end, end);
    if (stop > at) lengths.push_back(stop - at);
    at = std::max(at, stop);
  }
  return BlockLayout(lengths);
}

}  // namespace atp
