// Moves data as far as sockets and stages allow, and ends operations that are complete.
#include "atp/collective/ring/engine.h"

#include <algorithm>
#include <utility>

#include "atp/collective/waits/spent_text.h"

namespace atp {
namespace {

// Received data is added while it is still in the cache, and goes out right after.
constexpr std::size_t kStageBytes = 128 * 1024;
constexpr std::size_t kMaxSent = 256 * 1024;
// Maximum rounds between checks of the messages.
constexpr int kMovesInARound = 64;

}  // namespace

RingEngine::RingEngine(const RingOptions& options, Links links)
    : options_(options),
      own_name_(rank_name(options, options.rank)),
      before_(std::make_unique<Peer>(std::move(links.before),
                                     (options.rank + options.world_size - 1) % options.world_size)),
      next_(std::make_unique<Peer>(std::move(links.next), (options.rank + 1) % options.world_size)),
      closed_in_child_({before_->links.data.fd(), before_->links.control.fd(),
                        next_->links.data.fd(), next_->links.control.fd()}),
      transfers_(options.rank, options.world_size),
      stage_(std::make_unique_for_overwrite<std::byte[]>(kStageBytes)) {}

void RingEngine::submit(std::shared_ptr<RingOperation> operation, SteadyTime now) {
  if (failure_) return refuse(std::move(operation));
  now_ = now;
  coming_ = operation;
  const bool first = transfers_.empty();
  std::optional<SteadyTime> end;
  if (operation->request().timeout_is_total) {
    end = now + patience(*operation) - operation->request().spent;
    operation->set_end(*end);
  }
  ends_.add(end);
  const auto limit = patience(*operation);
  transfers_.add(std::move(operation));
  coming_ = nullptr;
  if (end && *end <= now) return fail(spent_text(own_name_, limit), FailureKind::kTimeout);
  if (!first) return;
  received_at_ = now;
  note_progress();
}

void RingEngine::work(const ReadClock& clock, const std::array<pollfd, 4>& ready) {
  now_ = clock();
  if (ready[0].revents != 0) read_messages(*before_);
  if (ready[1].revents != 0) read_messages(*next_);
  if (failure_) return;
  can_send_ = !next_->data_ended;
  can_receive_ = !before_->data_ended;
  const std::uint64_t sent = bytes_sent();
  const std::uint64_t received = counters_[RingCounter::kBytesReceived];
  move(clock);
  if (failure_) return;
  note_moves(bytes_sent() != sent, counters_[RingCounter::kBytesReceived] != received);
  check_time();
  report_late();
}

void RingEngine::move(const ReadClock& clock) {
  for (int i = 0; i < kMovesInARound && move_some(); ++i) {
    now_ = clock();
    if (now_ >= ends_by()) break;
  }
}

bool RingEngine::move_some() {
  const bool sent = send_some();
  const bool received = receive_some();
  end_done();
  return !failure_ && (sent || received);
}

bool RingEngine::send_some() {
  Transfer* transfer = can_send_ ? transfers_.sending() : nullptr;
  if (transfer == nullptr || !transfer->can_send()) return false;
  const std::size_t header_left = transfer->header_left();
  const Moved moved = transfer->send(next_->links.data.fd(), kMaxSent);
  counters_.add(RingCounter::kSendCalls);
  counters_.add(RingCounter::kHeaderBytesSent, std::min(moved.bytes, header_left));
  counters_.add(RingCounter::kBytesSent, moved.bytes - std::min(moved.bytes, header_left));
  can_send_ = moved.end == Moved::End::kMore;
  note_end(*next_, moved);
  return moved.bytes > 0;
}

bool RingEngine::receive_some() {
  Transfer* transfer = can_receive_ ? transfers_.receiving() : nullptr;
  if (transfer == nullptr) return false;
  const Moved moved = transfer->receive(before_->links.data.fd(), {stage_.get(), kStageBytes});
  counters_.add(RingCounter::kReceiveCalls);
  counters_.add(RingCounter::kBytesReceived, moved.bytes);
  can_receive_ = moved.end == Moved::End::kMore;
  if (transfer->mismatch()) fail(mismatch_text(*transfer));
  note_end(*before_, moved);
  return moved.bytes > 0;
}

void RingEngine::end_done() {
  while (auto operation = transfers_.take_done()) {
    counters_.add(RingCounter::kOperationsCompleted);
    ends_.remove_oldest();
    ended_.push_back({std::move(operation), ok_status()});
  }
}

std::uint64_t RingEngine::bytes_sent() const {
  return counters_[RingCounter::kBytesSent] + counters_[RingCounter::kHeaderBytesSent];
}

void RingEngine::leave(const std::string& why) {
  if (!failure_ && !transfers_.empty()) {
    fail(own_name_ + " has left the group: " + why, FailureKind::kNone);
  }
  for (Peer* peer : {before_.get(), next_.get()}) peer->line.send({Message::Kind::kFarewell, ""});
}

std::array<pollfd, 4> RingEngine::interests() {
  constexpr int kNone = -1;  // poll() skips it
  const Transfer* sending = transfers_.sending();
  const bool sends = !failure_ && !next_->data_ended && sending != nullptr && sending->can_send();
  const bool receives = !failure_ && !before_->data_ended && transfers_.receiving() != nullptr;
  const auto control_of = [](const Peer& peer) {
    return pollfd{peer.line.closed() ? kNone : peer.line.fd(), POLLIN, 0};
  };
  return {control_of(*before_), control_of(*next_),
          pollfd{sends ? next_->links.data.fd() : kNone, POLLOUT, 0},
          pollfd{receives ? before_->links.data.fd() : kNone, POLLIN, 0}};
}

}  // namespace atp
