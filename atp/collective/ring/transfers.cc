// Advances operations from stage to stage, and keeps their order in both streams.
#include "atp/collective/ring/transfers.h"

#include <utility>

namespace atp {

Transfer::Transfer(std::shared_ptr<RingOperation> operation, std::size_t rank, std::size_t ranks,
                   Scratch scratch)
    : operation_(std::move(operation)),
      header_(make_header(operation_->request(), operation_->number())),
      scratch_(std::move(scratch)),
      what_(make_stages(operation_->request(), rank, ranks,
                        {scratch_.memory.get(), scratch_.bytes})) {
  // Even an operation without values has a header.
  stages_.emplace_back(header_, what_->next().value_or(Schedule()));
}

// Starts as many stages as the received data allows.
void Transfer::begin_stages() {
  while (!received_ && stages_.back().in.done()) {
    if (std::optional<Schedule> schedule = what_->next()) {
      stages_.emplace_back(std::nullopt, std::move(*schedule));
    } else {
      received_ = true;
    }
  }
  while (stages_.size() > 1 && stages_.front().out.done()) stages_.pop_front();
}

bool Transfer::can_send() const { return sending().out.can_send(sending().in.received()); }

Moved Transfer::send(int fd, std::size_t most) {
  Stage& stage = stages_.front();
  const Moved moved = stage.out.send(fd, stage.in.received(), most);
  begin_stages();
  return moved;
}

Moved Transfer::receive(int fd, Bytes stage) {
  const Moved moved = stages_.back().in.receive(fd, stage);
  begin_stages();
  return moved;
}

void Transfers::add(std::shared_ptr<RingOperation> operation) {
  waiting_.push_back(std::move(operation));
}

Scratch Transfers::take_scratch(std::size_t bytes) {
  if (bytes == 0) return {};
  if (bytes <= spare_.bytes) return std::exchange(spare_, {});
  return {std::make_unique_for_overwrite<std::byte[]>(bytes), bytes};
}

// Prepares an operation only when its turn comes, since preparing it takes memory.
Transfer* Transfers::begin_next() {
  if (waiting_.empty()) return nullptr;
  Scratch scratch = take_scratch(stages_scratch_bytes(waiting_.front()->request(), rank_, ranks_));
  queue_.push_back(std::make_unique<Transfer>(waiting_.front(), rank_, ranks_, std::move(scratch)));
  waiting_.pop_front();
  return queue_.back().get();
}

Transfer* Transfers::sending() {
  for (const auto& transfer : queue_) {
    if (!transfer->sent()) return transfer.get();
  }
  return begin_next();
}

Transfer* Transfers::receiving() {
  for (const auto& transfer : queue_) {
    if (!transfer->received()) return transfer.get();
  }
  return begin_next();
}

const RingOperation* Transfers::oldest() const {
  if (!queue_.empty()) return &queue_.front()->operation();
  return waiting_.empty() ? nullptr : waiting_.front().get();
}

const RingOperation* Transfers::most_urgent() const {
  const RingOperation* urgent = nullptr;
  const auto consider = [&urgent](const RingOperation& each) {
    const SteadyTime before = urgent == nullptr ? SteadyTime::max() : urgent->ends_by();
    if (each.ends_by() < before) urgent = &each;
  };
  for (const auto& transfer : queue_) consider(transfer->operation());
  for (const auto& operation : waiting_) consider(*operation);
  return urgent;
}

std::shared_ptr<RingOperation> Transfers::take_front() {
  const std::unique_ptr<Transfer> transfer = std::move(queue_.front());
  queue_.pop_front();
  Scratch scratch = transfer->take_scratch();
  if (scratch.bytes > spare_.bytes) spare_ = std::move(scratch);
  return transfer->take_operation();
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
