#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "atp/base/zeroed_array.h"
#include "atp/wire/exact_sum.h"

// Memory of the float path (docs/inside/protocol §6): F slots with one exact sum per value of a
// fragment, and many small slots for fragments of a few values (metrics, norms, counts). A fragment
// of floats takes a slot. If none is free, it waits in a queue, first come, first served, and its
// workers are asked again in turn. So the memory is fixed when the job is made, and grows neither
// with the world size nor with the number of such fragments.
//
// Each fragment holds at most one slot or one place in the queue, so a queue with room for every
// fragment of the job's rings never overflows.

namespace atp {

struct FloatRequest {
  std::uint32_t stream = 0;  // counted from the job's first
  std::uint64_t sequence = 0;
  bool operator==(const FloatRequest&) const = default;
};

class FloatPool {
 public:
  // A large slot holds values_max values, a small one kSmallValues.
  static constexpr std::uint16_t kSmallValues = 16;

  FloatPool(std::uint32_t slots, std::uint32_t small_slots, std::uint16_t values_max,
            std::size_t queue_capacity);
  static std::size_t bytes_needed(std::uint32_t slots, std::uint32_t small_slots,
                                  std::uint16_t values_max, std::size_t queue_capacity);

  // A slot for this many values with zero sums, or nothing if all are taken.
  std::optional<std::uint32_t> take(std::size_t values);
  void give_back(std::uint32_t slot);
  // Whether the slot has room for this many values.
  bool fits(std::uint32_t slot, std::size_t values) const {
    return values <= (is_small(slot) ? kSmallValues : values_max_);
  }

  // Adds `count` float32 values (network byte order).
  void add(std::uint32_t slot, const std::uint8_t* values, std::size_t count);
  // Writes the bits of `count` rounded sums, in host byte order.
  void round(std::uint32_t slot, std::uint8_t* out, std::size_t count) const;

  void enqueue(const FloatRequest& request);
  std::optional<FloatRequest> next() const;  // the first in the queue
  void dequeue();                            // removes the first
  // Removes a request before its turn.
  void cancel(const FloatRequest& request);

  bool operator==(const FloatPool&) const = default;

 private:
  // A stack that never allocates after its construction, nor after that of a copy.
  class FreeSlots {
   public:
    FreeSlots(std::uint32_t first, std::uint32_t count);
    bool empty() const { return size_ == 0; }
    std::uint32_t take();
    void give_back(std::uint32_t slot);
    bool operator==(const FreeSlots&) const = default;

   private:
    std::vector<std::uint32_t> slots_;  // 0 from size_ on
    std::size_t size_ = 0;
  };

  bool is_small(std::uint32_t slot) const { return slot >= slots_; }
  std::size_t begin_of(std::uint32_t slot) const {
    return is_small(slot)
               ? std::size_t{slots_} * values_max_ + std::size_t{slot - slots_} * kSmallValues
               : std::size_t{slot} * values_max_;
  }

  std::uint32_t slots_;  // large slots; the small ones have higher numbers
  std::uint16_t values_max_;
  ZeroedArray<ExactSum> sums_;
  FreeSlots free_;
  FreeSlots free_small_;
  ZeroedArray<FloatRequest> queue_;  // a ring
  std::size_t queue_head_ = 0;
  std::size_t queue_size_ = 0;
};

}  // namespace atp
