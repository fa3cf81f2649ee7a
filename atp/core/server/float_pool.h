#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "atp/core/server/exact_sum.h"

// Memory of the float path (docs/protocol.md §6): F slots, each one exact sum for every value of
// a fragment. A fragment that overflowed takes a slot before its workers are asked for floats;
// when none is free it waits in a queue, first come, first served. So the memory is fixed when the
// job is made, and grows neither with the world size nor with the number of overflows.
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
  FloatPool(std::uint32_t slots, std::uint16_t value_count, std::size_t queue_capacity);
  static std::size_t bytes_needed(std::uint32_t slots, std::uint16_t value_count,
                                  std::size_t queue_capacity);

  // A slot whose sums are zero, or nothing if all are taken.
  std::optional<std::uint32_t> take();
  void give_back(std::uint32_t slot);

  // Adds the float32 values of a packet (network byte order, value_count of them).
  void add(std::uint32_t slot, const std::uint8_t* values);
  // The bits of the rounded sums.
  void round(std::uint32_t slot, std::span<std::int32_t> out) const;

  void enqueue(const FloatRequest& request);
  std::optional<FloatRequest> dequeue();
  // Takes a request off the queue before its turn.
  void cancel(const FloatRequest& request);

  bool operator==(const FloatPool&) const = default;

 private:
  std::span<ExactSum> sums(std::uint32_t slot);

  std::uint16_t value_count_;
  std::vector<ExactSum> sums_;       // slots × value_count
  std::vector<std::uint32_t> free_;  // a stack
  std::vector<FloatRequest> queue_;  // a ring
  std::size_t queue_head_ = 0;
  std::size_t queue_size_ = 0;
};

}  // namespace atp
