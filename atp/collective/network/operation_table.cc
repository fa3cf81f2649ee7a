#include "atp/collective/network/operation_table.h"

#include <utility>

#include "atp/base/check.h"

namespace atp {

void OperationTable::insert(OperationId id, std::shared_ptr<PendingOperation> operation) {
  if (slots_.empty()) first_id_ = id;
  ATP_CHECK(id == first_id_ + slots_.size());
  slots_.emplace_back();  // there may be no memory for it
  slots_.back().operation = std::move(operation);
  ++size_;
}

std::shared_ptr<PendingOperation> OperationTable::take(OperationId id) {
  Slot* found = find(id);
  if (found == nullptr) return nullptr;
  const Slot ended = std::exchange(*found, Slot{});
  --size_;
  while (!slots_.empty() && slots_.front().operation == nullptr) {
    slots_.pop_front();
    ++first_id_;
  }
  return ended.operation;
}

std::shared_ptr<PendingOperation> OperationTable::take_oldest() {
  return slots_.empty() ? nullptr : take(first_id_);
}

const PendingOperation* OperationTable::oldest() const {
  return slots_.empty() ? nullptr : slots_.front().operation.get();
}

const PendingOperation* OperationTable::peek(OperationId id) const {
  if (id < first_id_ || id - first_id_ >= slots_.size()) return nullptr;
  return slots_[static_cast<std::size_t>(id - first_id_)].operation.get();
}

std::span<std::int16_t> OperationTable::exponents(OperationId id) {
  Slot& of = slot(id);
  if (of.exponents.empty()) of.exponents.resize(of.operation->layout().blocks());
  return of.exponents;
}

OperationTable::Slot* OperationTable::find(OperationId id) {
  if (id < first_id_ || id - first_id_ >= slots_.size()) return nullptr;
  Slot* found = &slots_[static_cast<std::size_t>(id - first_id_)];
  return found->operation == nullptr ? nullptr : found;
}

OperationTable::Slot& OperationTable::slot(OperationId id) {
  Slot* found = find(id);
  ATP_CHECK(found != nullptr);
  return *found;
}

}  // namespace atp
