// Matches incoming messages to the values of tasks, and decides which messages may go out.
#include <algorithm>
#include <cstring>

#include "atp/base/check.h"
#include "atp/collective/peer/engine.h"

namespace atp {
namespace {

// How many bytes may be consumed before the sender gets credit for them.
constexpr std::size_t kCreditStep = kMaxWaitingBytes / 8;

bool is_of_ring(const CollectiveRequest& request) { return request.format || request.around_ring; }

}  // namespace

void PeerEngine::permit(Task& task, std::uint32_t index) {
  Send& send = task.sends[index];
  if (send.permitted) return;
  send.permitted = true;
  peers_[task.plan.sends[index].to].outgoing.push_back({&task, index});
}

// The next piece of the first message that has bytes ready.
std::optional<PeerConnection::Piece> PeerEngine::next_piece(std::size_t rank) {
  for (const Outgoing& each : peers_[rank].outgoing) {
    const PlannedSend& planned = each.task->plan.sends[each.send];
    const PlannedValue& value = each.task->plan.values[planned.value];
    const Value& state = each.task->values[planned.value];
    Send& send = each.task->sends[each.send];
    const bool at_once = is_sent_at_once(value.bytes, planned.is_eager);
    if (at_once ? !state.complete : state.filled == send.sent) continue;
    Frame frame = each.task->frame;
    frame.part = planned.part;
    frame.bytes = value.bytes;
    frame.offset = send.sent;
    frame.length = std::min(state.filled - send.sent, kMaxFrameBytes);
    return PeerConnection::Piece{frame, value.memory + send.sent, each.task, each.send};
  }
  return std::nullopt;
}

void PeerEngine::sent(std::size_t rank, const PeerConnection::Piece& piece) {
  read_clock();
  Task& task = *static_cast<Task*>(piece.task);
  Send& send = task.sends[piece.send];
  send.sent += piece.frame.length;
  if (is_of_ring(task.operation->request())) {
    counters_.add(PeerCounter::kRingBytesSent, piece.frame.length);
  }
  note_moved(task, rank);
  if (send.sent < piece.frame.bytes) return;
  send.done = true;
  Peer& peer = peers_[rank];
  peer.outgoing.erase(std::find_if(peer.outgoing.begin(), peer.outgoing.end(),
                                   [&](const Outgoing& each) {  // usually the first
                                     return each.task == &task && each.send == piece.send;
                                   }));
  if (task.key.is_transfer) peer.transfers.erase(task.frame.number);
  end_part(task);
}

void PeerEngine::say_ready(std::size_t rank, Arrival& arrival) {
  if (std::exchange(arrival.was_called, true)) return;
  Frame ready = arrival.frame;
  ready.kind = Frame::Kind::kReady;
  ready.offset = 0;
  post(rank, ready);
}

// Works even before there is a connection.
void PeerEngine::post(std::size_t rank, const Frame& frame) {
  Peer& peer = peers_[rank];
  if (peer.connection != nullptr) {
    peer.connection->post(frame);
  } else {
    peer.early.push_back(frame);
  }
}

bool PeerEngine::check_match(std::size_t rank, const Frame& theirs, const Task& task,
                             std::size_t bytes, std::uint32_t part) {
  Frame mine = task.frame;
  mine.bytes = bytes;
  mine.part = part;
  if (match(theirs, mine)) return true;
  fail_mismatch(rank, theirs, task, mine);
  return false;
}

void PeerEngine::fail_mismatch(std::size_t rank, const Frame& theirs, const Task& task,
                               const Frame& mine) {
  const std::string said = describe(theirs, options_.wording);
  const std::string own = describe(mine, options_.wording);
  if (task.key.is_transfer) {
    fail(name(rank) + " has called " + said + ", but " + own_name() + " receives into " +
         std::to_string(mine.bytes) + " bytes: the two sizes must be equal");
  } else {
    fail_unlike(rank, theirs, own + (said == own ? " with blocks of different lengths" : ""));
  }
}

// Connects an announced or received message with the task that needs it.
void PeerEngine::bind(std::size_t rank, const MessageKey& key, Arrival& arrival, Task& task,
                      std::uint32_t value) {
  const PlannedValue& planned = task.plan.values[value];
  if (!check_match(rank, arrival.frame, task, planned.bytes, planned.part)) return;
  arrival.task = &task;
  arrival.value = value;
  if (key.is_transfer) task.operation->set_source(rank);
  if (arrival.is_whole) return take_whole(rank, key, arrival);
  if (!arrival.is_buffered) say_ready(rank, arrival);
}

void PeerEngine::take_whole(std::size_t rank, const MessageKey& key, Arrival& arrival) {
  Task& task = *arrival.task;
  const std::uint32_t value = arrival.value;
  const std::size_t bytes = arrival.buffer.size();
  if (bytes > 0) std::memcpy(task.plan.values[value].memory, arrival.buffer.data(), bytes);
  give_credit(rank, bytes);
  peers_[rank].arrivals.erase(key);
  note_moved(task, rank);
  fill(task, value, bytes);
}

void PeerEngine::give_credit(std::size_t rank, std::size_t bytes) {
  Peer& peer = peers_[rank];
  peer.credit += bytes + sizeof(Frame);
  if (peer.credit < kCreditStep) return;
  post(rank, {.kind = Frame::Kind::kCredit, .bytes = std::exchange(peer.credit, 0)});
}

void PeerEngine::refuse_message(std::size_t rank, const Frame& frame, const std::string& own) {
  fail_unlike(rank, frame, own + ", in which it expects no message from " + name(rank));
}

void PeerEngine::fail_unlike(std::size_t rank, const Frame& theirs, const std::string& own) {
  fail(name(rank) + " has called " + describe(theirs, options_.wording) + ", but " + own_name() +
       " has called " + own +
       ": all ranks must call the same collectives with the same sizes and types in the same "
       "order");
}

// Gives a transfer to a receive that waits for it.
bool PeerEngine::match_transfer(std::size_t rank, const MessageKey& key, Arrival& arrival) {
  const auto found = std::find_if(receives_.begin(), receives_.end(), [&](const Task* task) {
    const std::size_t from = task->operation->request().root;
    return (from == kAnyRank || from == rank) && task->frame.root == arrival.frame.root;
  });
  if (found == receives_.end()) {
    unclaimed_.emplace_back(rank, key);
    return false;
  }
  Task& task = **found;
  receives_.erase(found);
  if (!check_match(rank, arrival.frame, task, task.plan.values.front().bytes, 0)) return false;
  arrival.task = &task;
  task.operation->set_source(rank);
  return true;
}

// The message to which a piece belongs; null after a failure.
PeerEngine::Arrival* PeerEngine::arrival_of(std::size_t rank, const Frame& frame) {
  const MessageKey key{is_transfer(frame.call), frame.number, frame.part};
  const auto [found, is_new] = peers_[rank].arrivals.try_emplace(key);
  Arrival& arrival = found->second;
  if (is_new) {
    arrival.frame = frame;
    if (!key.is_transfer && has_ended(key.number)) refuse_message(rank, frame, "a different one");
    if (key.is_transfer) match_transfer(rank, key, arrival);
    if (failure_) return nullptr;
  } else if (arrival.task != nullptr && frame.offset == 0) {
    const PlannedValue& value = arrival.task->plan.values[arrival.value];
    if (!check_match(rank, frame, *arrival.task, value.bytes, value.part)) return nullptr;
  }
  const std::size_t expected = arrival.task == nullptr || arrival.is_buffered
                                   ? 0
                                   : arrival.task->values[arrival.value].filled;
  const bool fits = frame.bytes == arrival.frame.bytes && frame.offset == expected &&
                    frame.offset + frame.length <= frame.bytes && !arrival.is_whole;
  const bool is_welcome = arrival.task != nullptr || frame.length == frame.bytes;
  if (!fits || !is_welcome ||
      (arrival.task == nullptr && !is_sent_at_once(frame.bytes, !key.is_transfer))) {
    fail(name(rank) + " sends an unexpected piece of a message");
    return nullptr;
  }
  if (arrival.task == nullptr) {
    arrival.is_buffered = true;
    arrival.buffer.resize(frame.bytes);
  }
  return &arrival;
}

PeerConnection::Place PeerEngine::place_of(const Arrival& arrival) {
  if (arrival.is_buffered) {
    return {const_cast<std::byte*>(arrival.buffer.data()) + arrival.taken,
            arrival.buffer.size() - arrival.taken};
  }
  const PlannedValue& value = arrival.task->plan.values[arrival.value];
  const std::size_t filled = arrival.task->values[arrival.value].filled;
  if (value.window == 0) return {value.memory + filled, value.bytes - filled};
  // Its user may not yet have taken a little of the end.
  const std::size_t at = filled % value.window;
  return {value.memory + at, std::min(value.window - at, value.window / 2)};
}

PeerConnection::Place PeerEngine::take_bytes(std::size_t rank, const Frame& frame,
                                             std::size_t bytes) {
  if (failure_) return {};
  read_clock();
  const MessageKey key{is_transfer(frame.call), frame.number, frame.part};
  Peer& peer = peers_[rank];
  peer.heard_at = now_;  // its answers may be behind these bytes
  Arrival& arrival = peer.arrivals.at(key);
  if (arrival.task != nullptr && is_of_ring(arrival.task->operation->request())) {
    counters_.add(PeerCounter::kRingBytesReceived, bytes);
  }
  if (arrival.is_buffered) {
    arrival.taken += bytes;
    if (arrival.taken < frame.bytes) return place_of(arrival);
    arrival.is_whole = true;
    if (arrival.task != nullptr) take_whole(rank, key, arrival);
    return {};
  }
  Task& task = *arrival.task;
  const std::uint32_t value = arrival.value;
  const std::size_t filled = task.values[value].filled + bytes;
  const bool is_whole = filled == frame.bytes;
  if (is_whole) {
    const bool at_once =
        is_sent_at_once(frame.bytes, task.plan.values[value].is_eager) && !arrival.was_called;
    if (at_once) give_credit(rank, frame.bytes);
    peer.arrivals.erase(key);
  }
  note_moved(task, rank);
  fill(task, value, filled);
  return failure_ || is_whole ? PeerConnection::Place{} : place_of(arrival);
}

void PeerEngine::hear_offer(std::size_t rank, const Frame& frame) {
  const MessageKey key{is_transfer(frame.call), frame.number, frame.part};
  const auto [found, is_new] = peers_[rank].arrivals.try_emplace(key);
  Arrival& arrival = found->second;
  if (!is_new) {
    if (arrival.task == nullptr) return fail(name(rank) + " offers a message twice");
    const PlannedValue& value = arrival.task->plan.values[arrival.value];
    if (!check_match(rank, frame, *arrival.task, value.bytes, value.part)) return;
    return say_ready(rank, arrival);
  }
  arrival.frame = frame;
  if (!key.is_transfer && has_ended(key.number)) {
    return refuse_message(rank, frame, "a different one");
  }
  if (key.is_transfer && match_transfer(rank, key, arrival)) say_ready(rank, arrival);
}

void PeerEngine::hear_ready(std::size_t rank, const Frame& frame) {
  Peer& peer = peers_[rank];
  const MessageKey key{is_transfer(frame.call), frame.number, frame.part};
  Task* task = nullptr;
  if (key.is_transfer) {
    const auto found = peer.transfers.find(key.number);
    if (found != peer.transfers.end()) task = found->second;
  } else {
    const auto found = tasks_.find({false, key.number});
    if (found != tasks_.end()) task = found->second.get();
  }
  if (task == nullptr) {
    if (!key.is_transfer && !has_ended(key.number)) peer.early_ready.insert(key);
    return;
  }
  // The latest stage is at the end.
  for (auto s = static_cast<std::uint32_t>(task->sends.size()); s-- > 0;) {
    const PlannedSend& planned = task->plan.sends[s];
    if (planned.to != rank || planned.part != key.part) continue;
    const std::size_t bytes = task->plan.values[planned.value].bytes;
    if (check_match(rank, frame, *task, bytes, planned.part)) permit(*task, s);
    return;
  }
  // This rank has not begun the stage.
  if (task->stages != nullptr) return void(peer.early_ready.insert(key));
  // It waits for a message that this rank will not send, so only the calls can be compared.
  Frame mine = task->frame;
  mine.bytes = task->plan.values.empty() ? 0 : task->plan.values.front().bytes;
  fail_mismatch(rank, frame, *task, mine);
}

}  // namespace atp
