// Starts operations, and lets the values of their plans grow.
#include <algorithm>

#include "atp/collective/peer/engine.h"
#include "atp/collective/waits/spent_text.h"

namespace atp {
namespace {

// Maximum collectives in progress at a time; more would only occupy memory.
constexpr std::size_t kMaxCollectives = 16;
// Bytes combined at a time: they fit the cache and are whole elements.
constexpr std::size_t kCombinedAtOnce = 16 * 1024;
// How long the higher of two ranks waits for the lower one to call.
constexpr std::chrono::milliseconds kCallsAfter{100};

}  // namespace

Frame PeerOperation::frame() const {
  Frame frame = frame_of(request_, number_);
  if (!request_.inputs.empty()) frame.bytes = request_.inputs.front().size();
  if (!request_.outputs.empty()) frame.bytes = request_.outputs.front().size();
  return frame;
}

void PeerEngine::submit(std::shared_ptr<PeerOperation> operation, SteadyTime now) {
  if (failure_) return refuse(std::move(operation));
  now_ = now;
  coming_ = operation;
  operation->set_begun(now - operation->request().spent);
  const std::chrono::milliseconds limit = patience(*operation);
  if (operation->request().spent >= limit) return fail_late(spent_text(own_name(), limit));
  if (is_transfer(operation->request().call)) return begin(std::move(operation));
  const std::uint64_t number = operation->number();
  note_called(number);
  must_begin_by_.emplace(must_begin_by(*operation), number);
  waiting_.emplace(number, std::move(operation));
  coming_ = nullptr;
}

void PeerEngine::skip(std::uint64_t number) { note_called(number); }

void PeerEngine::note_called(std::uint64_t number) {
  called_.insert(number);
  while (called_.erase(first_uncalled_) > 0) ++first_uncalled_;
}

bool PeerEngine::is_called(std::uint64_t number) const {
  return number < first_uncalled_ || called_.contains(number);
}

bool PeerEngine::has_ended(std::uint64_t number) const {
  return is_called(number) && !waiting_.contains(number) && !tasks_.contains({false, number});
}

void PeerEngine::begin_waiting() {
  while (!failure_ && !waiting_.empty() && collectives_ < kMaxCollectives) {
    std::shared_ptr<PeerOperation> operation = waiting_.extract(waiting_.begin()).mapped();
    must_begin_by_.erase({must_begin_by(*operation), operation->number()});
    begin(std::move(operation));
  }
}

void PeerEngine::begin(std::shared_ptr<PeerOperation> operation) {
  coming_ = operation;
  const CollectiveRequest& request = operation->request();
  TaskKey key{is_transfer(request.call), operation->number()};
  if (key.is_transfer) key.number = next_transfer_++;
  auto task = std::make_unique<Task>();
  task->key = key;
  task->frame = frame_of(request, operation->number());
  const std::chrono::milliseconds limit = patience(*operation);
  task->deadline = operation->begun() + limit;
  task->ask_at =
      task->deadline - std::min<std::chrono::milliseconds>(limit / 4, std::chrono::seconds(1));
  task->operation = std::move(operation);
  task->moved_at = now_;
  Task& begun = *task;
  tasks_[key] = std::move(task);
  coming_ = nullptr;
  enter(begun);
  if (!key.is_transfer) ++collectives_;
  // It may need more memory than there is: now the operation fails with the others.
  begun.stages = make_stages(request, options_.rank, options_.world_size, spare_);
  if (begun.stages != nullptr) {
    begun.left = 1;
    return begin_stage(begun);
  }
  begin_values(begun, make_plan(request, options_.rank, options_.world_size, spare_));
}

void PeerEngine::begin_stage(Task& task) {
  if (std::optional<PeerPlan> plan = task.stages->next()) {
    begin_values(task, *std::move(plan));
  } else {
    end_part(task);
  }
}

// Not while values are filled: their references would break.
bool PeerEngine::begin_due_stages() {
  bool any = false;
  for (; !failure_ && !due_.empty(); any = true) {
    const TaskKey key = due_.back();
    due_.pop_back();
    begin_stage(*tasks_.at(key));
  }
  return any;
}

// Appends the plan to the task's.
void PeerEngine::begin_values(Task& task, PeerPlan plan) {
  const auto first_value = static_cast<std::uint32_t>(task.values.size());
  const auto first_send = static_cast<std::uint32_t>(task.sends.size());
  // One more, so that the task does not end during this function.
  task.left += plan.values.size() + plan.sends.size() + 1;
  task.incomplete += plan.values.size();
  task.values.resize(first_value + plan.values.size());
  task.sends.resize(first_send + plan.sends.size());
  for (PlannedValue& value : plan.values) {
    const auto index = static_cast<std::uint32_t>(task.plan.values.size());
    for (std::uint32_t& operand : value.operands) {
      operand += first_value;
      task.values[operand].used_by.push_back(index);
    }
    task.plan.values.push_back(std::move(value));
  }
  for (PlannedSend& send : plan.sends) {
    send.value += first_value;
    task.plan.sends.push_back(send);
  }
  for (auto& memory : plan.scratch) task.plan.scratch.push_back(std::move(memory));
  const auto& values = task.plan.values;
  // Outgoing frames tell the receiver what this rank has called, so start the sends first.
  for (std::uint32_t s = first_send; s < task.sends.size() && !failure_; ++s) begin_send(task, s);
  for (std::uint32_t v = first_value; v < values.size() && !failure_; ++v) {
    if (values[v].origin == PlannedValue::Origin::kGiven) fill(task, v, values[v].bytes);
    if (values[v].origin == PlannedValue::Origin::kReceived) begin_receive(task, v);
  }
  if (!failure_) end_part(task);
}

// Returns the peer, and makes sure that there will be a connection with it.
PeerEngine::Peer& PeerEngine::reach(std::size_t rank) {
  Peer& peer = peers_[rank];
  if (!is_there(rank)) {
    miss(rank);
  } else if (peer.connection == nullptr) {
    links_.want(rank, now_);
  }
  return peer;
}

void PeerEngine::begin_send(Task& task, std::uint32_t index) {
  const PlannedSend& planned = task.plan.sends[index];
  Peer& peer = reach(planned.to);
  if (failure_) return;
  MessageKey key{task.key.is_transfer, task.frame.number, planned.part};
  if (key.is_transfer) {
    key.number = peer.transfers_begun++;
    task.frame.number = key.number;
    peer.transfers[key.number] = &task;
  }
  const std::size_t bytes = task.plan.values[planned.value].bytes;
  const std::size_t costs = bytes + sizeof(Frame);
  if (peer.early_ready.erase(key) > 0) return permit(task, index);
  if (is_sent_at_once(bytes, planned.is_eager) && peer.waiting_bytes + costs <= kMaxWaitingBytes) {
    peer.waiting_bytes += costs;
    return permit(task, index);
  }
  Frame offer = task.frame;
  offer.kind = Frame::Kind::kOffer;
  offer.part = planned.part;
  offer.bytes = bytes;
  post(planned.to, offer);
}

void PeerEngine::begin_receive(Task& task, std::uint32_t index) {
  const PlannedValue& value = task.plan.values[index];
  if (task.key.is_transfer) return begin_transfer_in(task);
  Peer& peer = peers_[value.from];
  const MessageKey key{false, task.frame.number, value.part};
  const auto [found, is_new] = peer.arrivals.try_emplace(key);
  Arrival& arrival = found->second;
  if (!is_new) return bind(value.from, key, arrival, task, index);
  arrival.task = &task;
  arrival.value = index;
  arrival.frame = task.frame;
  arrival.frame.part = value.part;
  arrival.frame.bytes = value.bytes;
  await(value.from);
  const bool at_once = is_sent_at_once(value.bytes, value.is_eager);
  if (!failure_ && !at_once) say_ready(value.from, arrival);
}

// A rank that waits for another must learn of its death. The lower rank calls at once; the higher
// one expects to be called, if the other is alive.
void PeerEngine::await(std::size_t rank) {
  Peer& peer = peers_[rank];
  if (peer.connection != nullptr && is_there(rank)) return;
  if (options_.rank < rank || !is_there(rank)) {
    reach(rank);
  } else if (!peer.call_at) {
    peer.call_at = now_ + kCallsAfter;
  }
}

void PeerEngine::begin_transfer_in(Task& task) {
  const std::size_t from = task.operation->request().root;
  for (auto it = unclaimed_.begin(); it != unclaimed_.end(); ++it) {
    const auto [rank, key] = *it;
    Arrival& arrival = peers_[rank].arrivals.at(key);
    if ((from != kAnyRank && from != rank) || arrival.frame.root != task.frame.root) continue;
    unclaimed_.erase(it);
    return bind(rank, key, arrival, task, 0);
  }
  receives_.push_back(&task);
  if (from != kAnyRank) return await(from);
  // Ranks that are gone do not matter as long as another one can send.
  std::optional<std::size_t> gone;
  bool any = false;
  for (std::size_t rank = 0; rank < peers_.size(); ++rank) {
    if (rank == options_.rank) continue;
    is_there(rank) ? await(rank) : void(gone = rank);
    any = any || is_there(rank);
  }
  if (!any && gone) miss(*gone);
}

void PeerEngine::fill(Task& task, std::uint32_t index, std::size_t filled) {
  Value& value = task.values[index];
  value.filled = filled;
  const bool completes = filled == task.plan.values[index].bytes && !value.complete;
  if (completes) value.complete = true;
  for (const std::uint32_t user : value.used_by) combine(task, user);
  if (!completes) return;
  if (--task.incomplete == 0 && task.stages != nullptr) due_.push_back(task.key);
  end_part(task);
}

void PeerEngine::combine(Task& task, std::uint32_t index) {
  const PlannedValue& planned = task.plan.values[index];
  Value& value = task.values[index];
  if (value.complete) return;
  std::size_t ready = planned.bytes;
  bool complete = true;
  for (const std::uint32_t operand : planned.operands) {
    ready = std::min(ready, task.values[operand].filled);
    complete = complete && task.values[operand].complete;
  }
  if (!complete) ready -= ready % kCombinedAtOnce;
  if (ready == value.filled && !complete) return;
  const CollectiveRequest& request = task.operation->request();
  const std::size_t element = bytes_of(request.kind);
  std::vector<const std::byte*> operands(planned.operands.size());
  for (std::size_t at = value.filled; at < ready;) {
    std::size_t bytes = ready - at;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const PlannedValue& operand = task.plan.values[planned.operands[i]];
      const std::size_t place = operand.window > 0 ? at % operand.window : at;
      if (operand.window > 0) bytes = std::min(bytes, operand.window - place);
      operands[i] = operand.memory + place;
    }
    if (planned.take) {
      planned.take(at, {operands.front(), bytes});
    } else {
      reduce_elements(request.kind, planned.reduction, operands, options_.world_size,
                      planned.memory + at, bytes / element);
    }
    at += bytes;
  }
  fill(task, index, ready);
}

void PeerEngine::end_part(Task& task) {
  if (--task.left == 0) end(task);
}

// Finds leftovers: two ranks that both act as the root would have nothing to wait for.
void PeerEngine::check_nothing_left(const Task& task) {
  for (std::size_t rank = 0; rank < peers_.size(); ++rank) {
    const auto& arrivals = peers_[rank].arrivals;
    const auto left = arrivals.lower_bound({false, task.key.number, 0});
    if (left == arrivals.end() || left->first.is_transfer) continue;
    if (left->first.number != task.key.number) continue;
    return refuse_message(rank, left->second.frame, task.operation->text());
  }
}

void PeerEngine::end(Task& task) {
  if (!task.key.is_transfer) check_nothing_left(task);
  if (failure_) return;
  counters_.add(PeerCounter::kOperationsCompleted);
  ended_.push_back({task.operation, ok_status()});
  if (!task.key.is_transfer) --collectives_;
  agenda_.erase({task.look_at, task.key});
  held_up_.erase(task.key);
  spare_.give(std::move(task.plan.scratch));
  tasks_.erase(TaskKey(task.key));
}

}  // namespace atp
