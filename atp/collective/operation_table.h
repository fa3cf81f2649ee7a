#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <span>

#include "atp/collective/pending_operation.h"

// The operations in flight, by the worker's number for them: how the worker of the core, which
// keeps no pointers, reaches the callers' tensors. Only the thread that drives the worker uses it.

namespace atp {

class OperationTable final : public Tensors {
 public:
  // The worker numbers its operations from 0 without gaps, in the order of submission.
  void insert(OperationId id, std::shared_ptr<PendingOperation> operation);
  // The operation has ended: the table forgets it and its tensor. Null if it is not in flight.
  std::shared_ptr<PendingOperation> take(OperationId id);
  // The oldest one in flight, taken out; null if there is none.
  std::shared_ptr<PendingOperation> take_oldest();

  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }

  std::span<const float> input(OperationId id) override { return data_of(id); }
  std::span<float> output(OperationId id) override { return data_of(id); }

 private:
  std::shared_ptr<PendingOperation>* find(OperationId id);
  std::span<float> data_of(OperationId id);

  std::deque<std::shared_ptr<PendingOperation>> slots_;  // of first_id_ and later; null: ended
  OperationId first_id_ = 0;
  std::size_t size_ = 0;
};

}  // namespace atp
