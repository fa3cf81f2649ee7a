#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "atp/base/check.h"
#include "atp/base/time.h"
#include "atp/core/worker/worker_api.h"
#include "atp/wire/packet.h"

// The operations of one stream of a worker, each with a contiguous range of sequences.

namespace atp {

// What a range of sequences carries.
enum class OperationPart : std::uint8_t {
  kValues,
  kExponents,  // of the blocks of an operation whose values are on another stream
};

// One all-reduce, or the agreement on its exponents, as the worker sees it.
struct Operation {
  OperationId id = 0;
  OperationSpec spec;
  OperationPart part = OperationPart::kValues;
  std::uint8_t kind = ATP_KIND_SUM_FIXED;  // of its fragments, except those of special blocks
  std::uint32_t fingerprint = 0;
  std::uint64_t lanes = 0;         // values, or exponents
  std::uint32_t per_fragment = 1;  // lanes
  std::uint64_t first_sequence = 0;
  std::uint64_t fragments = 0;
  std::uint64_t unanswered = 0;
  std::uint64_t first_exponents = 0;  // if it has blocks: a sequence of the express stream
  std::size_t value_stream = 0;       // for exponents: the stream of their values,
  std::uint64_t values_due = 0;       // and its next sequence when more exponents may be sent
  Instant began = kNever;             // kNever: waits for its first exponents
  Instant first_answer = kNever;      // transmissions after it give valid round-trip times

  bool in_blocks() const {
    return kind == ATP_KIND_SUM_BLOCKS || kind == ATP_KIND_SUM_BLOCKS_INT16;
  }
  bool has_begun() const { return began != kNever; }
  bool holds(std::uint64_t sequence) const {
    return sequence >= first_sequence && sequence - first_sequence < fragments;
  }
  // The offset of a fragment's lanes in the operation.
  std::size_t offset(std::uint64_t sequence) const {
    return static_cast<std::size_t>(sequence - first_sequence) * per_fragment;
  }
  std::size_t length(std::uint64_t sequence) const {
    const std::size_t left = static_cast<std::size_t>(lanes) - offset(sequence);
    return left < per_fragment ? left : per_fragment;
  }
  bool operator==(const Operation&) const = default;
};

// The header's fingerprint of a collective (docs/inside/protocol §5, *Fingerprint*; H31).
inline std::uint32_t operation_fingerprint(OperationId id, const OperationSpec& spec,
                                           std::uint8_t kind) {
  const std::uint32_t parts[] = {static_cast<std::uint32_t>(id),
                                 static_cast<std::uint32_t>(id >> 32),
                                 static_cast<std::uint32_t>(spec.count),
                                 static_cast<std::uint32_t>(spec.count >> 32),
                                 (spec.small ? 1U : 0U) << 24 |
                                     static_cast<std::uint32_t>(spec.type) << 16 |
                                     static_cast<std::uint32_t>(spec.reduction) << 8 | kind,
                                 spec.layout,
                                 spec.tag};
  std::uint32_t hash = 0x61747032;  // "atp2"
  for (const std::uint32_t part : parts) hash = atp_fmix32(hash ^ part) + 0x9e3779b9U;
  return hash;
}

// Oldest first, in a ring of fixed size. Operations leave at the front only: fragments are answered
// in any order, but a stream has few operations and they are short.
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

  // The one that must end first, if any must; null: none.
  const Operation* most_urgent() const {
    const Operation* urgent = nullptr;
    for (std::size_t i = 0; i < size_; ++i) {
      const Operation& each = ring_[index(i)];
      if (each.spec.ends_by < (urgent == nullptr ? kNever : urgent->spec.ends_by)) urgent = &each;
    }
    return urgent;
  }

  // Null: it is not here.
  const Operation* with_fingerprint(std::uint32_t fingerprint) const {
    for (std::size_t i = 0; i < size_; ++i) {
      if (ring_[index(i)].fingerprint == fingerprint) return &ring_[index(i)];
    }
    return nullptr;
  }

  // The operation whose range holds `sequence`, which must belong to a queued operation. It is
  // nearly always the oldest.
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
