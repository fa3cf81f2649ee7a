#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "atp/collective/base/pending_operation.h"

// The operations in flight by the worker's numbers. The worker of the core keeps no pointers;
// through this table it accesses the callers' tensors and the exponents of their blocks. Only the
// thread that drives the worker uses it.

namespace atp {

class OperationTable final : public Tensors {
 public:
  // The worker numbers its operations from 0 without gaps, in the order of submission.
  void insert(OperationId id, std::shared_ptr<PendingOperation> operation);
  // The operation has ended: the table forgets it and its tensor. Null if it is not in flight.
  std::shared_ptr<PendingOperation> take(OperationId id);
  // Removes and returns the oldest one in flight; null if there is none.
  std::shared_ptr<PendingOperation> take_oldest();

  const PendingOperation* oldest() const;              // null if there is none
  const PendingOperation* peek(OperationId id) const;  // null: it is not in flight

  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }

  std::span<const std::byte> input(OperationId id) override { return slot(id).operation->bytes(); }
  std::span<std::byte> output(OperationId id) override { return slot(id).operation->bytes(); }
  const BlockLayout& layout(OperationId id) override { return slot(id).operation->layout(); }
  // Allocated on first use: most operations on small tensors need none.
  std::span<std::int16_t> exponents(OperationId id) override;

 private:
  struct Slot {
    std::shared_ptr<PendingOperation> operation;  // null: ended
    std::vector<std::int16_t> exponents;
  };
  Slot* find(OperationId id);
  // The operation must be in flight.
  Slot& slot(OperationId id);

  std::deque<Slot> slots_;  // from first_id_ on
  OperationId first_id_ = 0;
  std::size_t size_ = 0;
};

}  // namespace atp
