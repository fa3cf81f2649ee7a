#include "atp/collective/ring/transfers.h"

#include <utility>

namespace atp {
namespace {

Passage passage_of(const RingRequest& request, std::size_t rank, std::size_t ranks,
                   const Scratch& scratch) {
  return make_passage(request, rank, ranks, {scratch.memory.get(), scratch.bytes});
}

}  // namespace

Transfer::Transfer(std::shared_ptr<RingOperation> what, std::size_t rank, std::size_t ranks,
                   Scratch memory)
    : operation(std::move(what)),
      scratch(std::move(memory)),
      passage(passage_of(operation->request(), rank, ranks, scratch)),
      out(make_header(operation->request(), operation->number()), passage),
      in(make_header(operation->request(), operation->number()), passage, ranks) {}

void Transfers::add(std::shared_ptr<RingOperation> operation) {
  waiting_.push_back(std::move(operation));
}

Scratch Transfers::take_scratch(std::size_t bytes) {
  if (bytes == 0) return {};
  if (bytes <= spare_.bytes) return std::exchange(spare_, {});
  return {std::make_unique_for_overwrite<std::byte[]>(bytes), bytes};
}

// Only what is under way needs memory, so an operation is made ready when its turn comes.
Transfer* Transfers::begin_next() {
  if (waiting_.empty()) return nullptr;
  Scratch scratch = take_scratch(scratch_bytes(waiting_.front()->request(), rank_));
  queue_.push_back(
      std::make_unique<Transfer>(std::move(waiting_.front()), rank_, ranks_, std::move(scratch)));
  waiting_.pop_front();
  return queue_.back().get();
}

Transfer* Transfers::sending() {
  for (const auto& transfer : queue_) {
    if (!transfer->out.done()) return transfer.get();
  }
  return begin_next();
}

Transfer* Transfers::receiving() {
  for (const auto& transfer : queue_) {
    if (!transfer->in.done()) return transfer.get();
  }
  return begin_next();
}

const RingOperation* Transfers::oldest() const {
  if (!queue_.empty()) return queue_.front()->operation.get();
  return waiting_.empty() ? nullptr : waiting_.front().get();
}

std::shared_ptr<RingOperation> Transfers::take_front() {
  const std::unique_ptr<Transfer> transfer = std::move(queue_.front());
  queue_.pop_front();
  if (transfer->scratch.bytes > spare_.bytes) spare_ = std::move(transfer->scratch);
  return std::move(transfer->operation);
}

std::shared_ptr<RingOperation> Transfers::take_done() {
  if (queue_.empty() || !queue_.front()->done()) return nullptr;
  return take_front();
}

std::shared_ptr<RingOperation> Transfers::take_oldest() {
  if (!queue_.empty()) return take_front();
  if (waiting_.empty()) return nullptr;
  std::shared_ptr<RingOperation> operation = std::move(waiting_.front());
  waiting_.pop_front();
  return operation;
}

}  // namespace atp
