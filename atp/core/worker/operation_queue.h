#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "atp/base/check.h"
#include "atp/base/time.h"
#include "atp/core/worker/scale_history.h"
#include "atp/core/worker/worker_api.h"
#include "atp/wire/packet.h"

// The operations of one stream of a worker, each a contiguous range of its sequence space.

namespace atp {

// One all-reduce as the worker sees it.
struct Operation {
  OperationId id = 0;
  OperationSpec spec;
  double scale = 0;  // 0: not settled, as the operation before it of its kind is on its way
  ScaleHistory::Ticket ticket;
  double magnitude = 0;           // largest of the answered fragments, in units of the scale
  std::uint32_t fingerprint = 0;  // holds the scale, so it is settled with it
  std::uint64_t first_sequence = 0;
  std::uint64_t fragments = 0;
  std::uint64_t unanswered = 0;
  Instant began{};                // submitted, or its scale settled
  Instant first_answer = kNever;  // later transmissions give honest round-trip times

  bool settled() const { return scale != 0; }
  void settle(double agreed_scale, Instant now);

  bool holds(std::uint64_t sequence) const {
    return sequence >= first_sequence && sequence - first_sequence < fragments;
  }
  // Where the values of a fragment of k values stand in the tensor.
  std::size_t offset(std::uint64_t sequence, std::size_t k) const {
    return static_cast<std::size_t>(sequence - first_sequence) * k;
  }
  std::size_t length(std::uint64_t sequence, std::size_t k) const {
    const std::size_t left = static_cast<std::size_t>(spec.count) - offset(sequence, k);
    return left < k ? left : k;
  }
  bool operator==(const Operation&) const = default;
};

// The header's fingerprint of a collective: number, length, type, reduction, scale and tag (H31).
inline std::uint32_t operation_fingerprint(OperationId id, const OperationSpec& spec,
                                           double scale) {
  constexpr std::uint32_t kFloat32 = 0;
  const auto scale_bits = std::bit_cast<std::uint64_t>(scale);
  const std::uint32_t parts[] = {static_cast<std::uint32_t>(id),
                                 static_cast<std::uint32_t>(id >> 32),
                                 static_cast<std::uint32_t>(spec.count),
                                 static_cast<std::uint32_t>(spec.count >> 32),
                                 kFloat32 * 256 + static_cast<std::uint32_t>(spec.reduction),
                                 static_cast<std::uint32_t>(scale_bits),
                                 static_cast<std::uint32_t>(scale_bits >> 32),
                                 spec.tag};
  std::uint32_t hash = 0x61747031;  // "atp1"
  for (const std::uint32_t part : parts) hash = atp_fmix32(hash ^ part) + 0x9e3779b9U;
  return hash;
}

inline void Operation::settle(double agreed_scale, Instant now) {
  scale = agreed_scale;
  began = now;
  fingerprint = operation_fingerprint(id, spec, scale);
}

// Oldest first, in a ring of fixed size; operations leave at the front only, since a stream's
// fragments are answered in any order but its operations are few and short-lived.
class OperationQueue {
 public:
  OperationQueue() = default;
  explicit OperationQueue(std::size_t capacity) : ring_(capacity) {}

  bool empty() const { return size_ == 0; }
  bool full() const { return size_ == ring_.size(); }
  std::size_t size() const { return size_; }

  void push_back(const Operation& operation) {
    ATP_CHECK(!full());
    ring_[index(size_++)] = operation;
  }
  void pop_front() {
    ATP_CHECK(!empty());
    head_ = index(1);
    --size_;
  }
  const Operation& front() const { return ring_[head_]; }
  Operation& operator[](std::size_t i) { return ring_[index(i)]; }
  const Operation& operator[](std::size_t i) const { return ring_[index(i)]; }

  // The operation whose range holds `sequence`, which must be one of a queued operation.
  // Nearly always that is the oldest.
  Operation& find(std::uint64_t sequence) {
    return size_ > 0 && ring_[head_].holds(sequence) ? ring_[head_] : search(sequence);
  }

  bool operator==(const OperationQueue&) const = default;

 private:
  Operation& search(std::uint64_t sequence);
  std::size_t index(std::size_t i) const {  // i ≤ size
    const std::size_t at = head_ + i;
    return at < ring_.size() ? at : at - ring_.size();
  }

  std::vector<Operation> ring_;
  std::size_t head_ = 0;
  std::size_t size_ = 0;
};

}  // namespace atp
