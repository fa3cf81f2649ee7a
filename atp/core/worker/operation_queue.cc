#include "atp/core/worker/operation_queue.h"

namespace atp {

Operation& OperationQueue::search(std::uint64_t sequence) {
  std::size_t low = 0;
  std::size_t high = size_;
  while (high - low > 1) {
    const std::size_t middle = low + (high - low) / 2;
    if (ring_[index(middle)].first_sequence <= sequence) {
      low = middle;
    } else {
      high = middle;
    }
  }
  Operation& found = ring_[index(low)];
  ATP_CHECK(size_ > 0 && found.holds(sequence));
  return found;
}

}  // namespace atp
