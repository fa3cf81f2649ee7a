#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "atp/collective/pending_operation.h"

// The operations in flight, by the worker's number for them: how the worker of the core, which
// keeps no pointers, reaches the callers' tensors and the exponents of their blocks. Only the
// thread that drives the worker uses it.

namespace atp {

class OperationTable final : public Tensors {
 public:
  // The worker numbers its operations from 0 without gaps, in the order of submission.
  void insert(OperationId id, std::shared_ptr<PendingOperation> operation);
  // The operation has ended: the table forgets it and its tensor. Null if it is not in flight.
  std::shared_ptr<PendingOperation> take(OperationId id);
  // The oldest one in flight, taken out; null if there is none.
  std::shared_ptr<PendingOperation> take_oldest();

  const PendingOperation* oldest() const;  // null if there is none

  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }

  std::span<const std::byte> input(OperationId id) override { return slot(id).operation->bytes(); }
  std::span<std::byte> output(OperationId id) override { return slot(id).operation->bytes(); }
  const BlockLayout& layout(OperationId id) override { return slot(id).operation->layout(); }
  // Made when they are first asked for: most operations of small tensors never do.
  std::span<std::int16_t> exponents(OperationId id) override;

 private:
  struct Slot {
    std::shared_ptr<PendingOperation> operation;  // null: ended
    std::vector<std::int16_t> exponents;
  };
  Slot* find(OperationId id);
  // The worker asks for operations in flight only.
  Slot& slot(OperationId id);

  std::deque<Slot> slots_;  // of first_id_ and later
  OperationId first_id_ = 0;
  std::size_t size_ = 0;
};

}  // namespace atp
