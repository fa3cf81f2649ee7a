#include "atp/collective/peer/spare_memory.h"

#include <algorithm>
#include <utility>

namespace atp {

Scratch SpareMemory::take(std::size_t bytes) {
  const auto found = std::find_if(spare_.begin(), spare_.end(), [bytes](const Scratch& each) {
    return each.bytes >= bytes && each.bytes / 2 <= bytes;
  });
  if (found == spare_.end()) return {std::make_unique_for_overwrite<std::byte[]>(bytes), bytes};
  Scratch scratch = std::move(*found);
  spare_.erase(found);
  bytes_ -= scratch.bytes;
  return scratch;
}

void SpareMemory::give(std::vector<Scratch> used) {
  for (Scratch& each : used) {
    if (each.bytes < kLeast || each.bytes > kMost) continue;
    bytes_ += each.bytes;
    spare_.push_front(std::move(each));
  }
  for (; bytes_ > kMost; spare_.pop_back()) bytes_ -= spare_.back().bytes;
}

}  // namespace atp
