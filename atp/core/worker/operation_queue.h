#pragma once

#include <cstdint>
#include <vector>

#include "atp/base/check.h"
#include "atp/core/worker/operation.h"

// The operations of one stream, oldest first: contiguous ranges of its sequence space. A ring of
// fixed size; operations leave at the front only, since a stream's fragments are answered in any
// order but its operations are few and short-lived.

namespace atp {

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
