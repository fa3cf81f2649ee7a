#include "atp/collective/operation_table.h"

#include <utility>

#include "atp/base/check.h"

namespace atp {

void OperationTable::insert(OperationId id, std::shared_ptr<PendingOperation> operation) {
  if (slots_.empty()) first_id_ = id;
  ATP_CHECK(id == first_id_ + slots_.size());
  slots_.push_back(std::move(operation));
  ++size_;
}

std::shared_ptr<PendingOperation> OperationTable::take(OperationId id) {
  std::shared_ptr<PendingOperation>* slot = find(id);
  if (slot == nullptr) return nullptr;
  std::shared_ptr<PendingOperation> taken = std::move(*slot);
  --size_;
  while (!slots_.empty() && slots_.front() == nullptr) {
    slots_.pop_front();
    ++first_id_;
  }
  return taken;
}

std::shared_ptr<PendingOperation> OperationTable::take_oldest() {
  return slots_.empty() ? nullptr : take(first_id_);
}

std::shared_ptr<PendingOperation>* OperationTable::find(OperationId id) {
  if (id < first_id_ || id - first_id_ >= slots_.size()) return nullptr;
  std::shared_ptr<PendingOperation>* slot = &slots_[static_cast<std::size_t>(id - first_id_)];
  return *slot == nullptr ? nullptr : slot;
}

std::span<float> OperationTable::data_of(OperationId id) {
  std::shared_ptr<PendingOperation>* slot = find(id);
  ATP_CHECK(slot != nullptr);  // the worker asks for operations in flight only
  return (*slot)->data();
}

}  // namespace atp
