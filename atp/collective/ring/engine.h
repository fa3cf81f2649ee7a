#pragma once

#include <poll.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "atp/base/counters.h"
#include "atp/base/failure_kind.h"
#include "atp/collective/base/closed_in_child.h"
#include "atp/collective/ring/links.h"
#include "atp/collective/ring/messages.h"
#include "atp/collective/ring/transfers.h"
#include "atp/collective/waits/earliest_end.h"
#include "atp/collective/waits/late_ranks.h"
#include "atp/collective/waits/read_clock.h"

// Carries out the operations of one rank over its two connections. One thread drives it; it never
// waits.
//
// When something breaks, every rank should name the same culprit. So a rank that sees a connection
// end waits a moment for messages from its neighbours: the failure of one rank travels around the
// ring as a message, in both directions, and the connections that end because of it are only an
// echo. In a ring without progress every rank waits for every other. The rank that reports the
// failure is the one with the evidence: the rank before it has not begun the operation, or a
// neighbour does not answer.

namespace atp {

// A rank's counters of its ring, updated at each system call. TCP's own retransmissions are not
// visible.
enum class RingCounter : std::uint8_t {
  kBytesSent,        // of all stages: the bytes that the model of a ring counts
  kHeaderBytesSent,  // 32 per operation
  kBytesReceived,    // of stages and headers
  kSendCalls,
  kReceiveCalls,
  kWaits,  // for the network or for an operation
  kOperationsCompleted,
  kOperationsFailed,
  kCount,
};

constexpr std::string_view to_string(RingCounter counter) {
  switch (counter) {
    case RingCounter::kBytesSent: return "ring_bytes_sent";
    case RingCounter::kHeaderBytesSent: return "ring_header_bytes_sent";
    case RingCounter::kBytesReceived: return "ring_bytes_received";
    case RingCounter::kSendCalls: return "ring_send_calls";
    case RingCounter::kReceiveCalls: return "ring_receive_calls";
    case RingCounter::kWaits: return "ring_waits";
    case RingCounter::kOperationsCompleted: return "operations_completed";
    case RingCounter::kOperationsFailed: return "operations_failed";
    case RingCounter::kCount: break;
  }
  return "unknown";
}

using RingCounters = Counters<RingCounter>;

class RingEngine {
 public:
  RingEngine(const RingOptions& options, Links links);

  void submit(std::shared_ptr<RingOperation> operation, SteadyTime now);
  // Moves data, reads messages, and ends operations that are complete or overdue. `ready`: the
  // result of poll() for the interests.
  void work(const ReadClock& clock, const std::array<pollfd, 4>& ready);
  // The operations that have ended since the last call; the caller finishes them, since a callback
  // may do anything and must see the counters as they were at the end.
  std::vector<EndedOperation<RingOperation>> take_ended() { return std::exchange(ended_, {}); }
  // Fails for a reason from outside, and tells the neighbours this reason.
  void stop(const std::string& why) { fail(why, FailureKind::kNone); }
  // Tells the neighbours that this rank leaves. Operations in flight fail.
  void leave(const std::string& why);

  // The events to wait for after work(), besides submissions.
  std::array<pollfd, 4> interests();
  std::optional<SteadyTime> next_timeout() const;

  // Why the ring has failed, if it has.
  const std::optional<std::string>& failure() const { return failure_; }
  FailureKind failure_kind() const { return failure_kind_; }
  std::size_t pending() const { return transfers_.size(); }
  const RingCounters& counters() const { return counters_; }
  // The rank that holds up the ring.
  const LateRanks& late() const { return late_; }
  std::optional<LateRanks::Line> take_line() { return late_.take_line(); }
  std::optional<WaitedForRanks> waited_for() const;
  void count_wait() { counters_.add(RingCounter::kWaits); }

 private:
  // The state of a neighbour.
  struct Peer {
    Peer(Neighbour its_links, std::size_t its_rank)
        : links(std::move(its_links)), line(links.control), rank(its_rank) {}
    Neighbour links;
    MessageLine line;
    bool left = false;        // has sent a farewell
    bool data_ended = false;  // its data connection has ended
    bool gone = false;        // its process has ended
    std::size_t rank = 0;
    std::optional<SteadyTime> asked_at;  // the first probe since the last progress
    SteadyTime heard_at{};
    SteadyTime unanswered_since{};  // the first probe since it was heard
  };
  // A connection that ended, for a reason that the neighbours may know better.
  struct Suspicion {
    std::string text;
    SteadyTime until;
  };

  void move(const ReadClock& clock);
  bool move_some();
  std::uint64_t bytes_sent() const;
  bool send_some();
  bool receive_some();
  void end_done();
  void note_end(Peer& peer, const Moved& moved);
  void read_messages(Peer& peer);
  void handle(Peer& peer, const Message& message);
  void check_time();
  void ask_neighbours();
  std::optional<std::string> overdue();
  std::string too_late() const;
  const Peer* silent_for(std::chrono::milliseconds limit) const;
  void note_moves(bool sent, bool received);
  const Peer* without_answer() const;
  void find_late();
  void hear_late(const Peer& from, const std::string& text);
  void pass_on_late(const Peer* from);
  void report_late();
  void suspect(const std::string& text);
  void miss(const Peer& peer);  // it left before everything was done
  void take_what_has_come();
  bool needs_one_that_is_gone();
  void fail(const std::string& why, FailureKind kind = FailureKind::kBroken);
  void refuse(std::shared_ptr<RingOperation> operation);
  void note_progress();
  std::string mismatch_text(const Transfer& transfer) const;
  std::chrono::milliseconds patience(const RingOperation& operation) const;
  std::chrono::milliseconds patience() const;  // how long to wait for the oldest operation
  std::chrono::milliseconds asking_interval() const;
  std::chrono::milliseconds grace() const;
  SteadyTime ends_by() const { return ends_.get().value_or(SteadyTime::max()); }
  SteadyTime deadline() const { return std::min(progress_at_ + patience(), ends_by()); }

  const RingOptions options_;
  const std::string own_name_;
  // The lines refer to the sockets, so the peers must not move.
  const std::unique_ptr<Peer> before_;
  const std::unique_ptr<Peer> next_;
  const ClosedInChild closed_in_child_;
  Transfers transfers_;
  // Until it is there: there may be no memory for that, and no operation may get lost.
  std::shared_ptr<RingOperation> coming_;
  std::vector<EndedOperation<RingOperation>> ended_;
  std::unique_ptr<std::byte[]> stage_;
  RingCounters counters_;
  SteadyTime now_;
  SteadyTime progress_at_;        // the last progress, or the first operation's submission
  EarliestEnd<SteadyTime> ends_;  // of operations that fail even if they make progress
  SteadyTime ask_at_;             // when to probe the neighbours
  bool can_send_ = true;          // the socket accepts more in this round
  bool can_receive_ = true;
  std::optional<Suspicion> suspicion_;
  std::optional<std::string> failure_;
  FailureKind failure_kind_ = FailureKind::kNone;
  // A rank that holds up the ring, as this rank has found or a neighbour has told.
  struct Late {
    std::size_t rank = 0;
    std::string text;
  };
  SteadyTime received_at_;  // the last data, or the first operation's submission
  SteadyTime find_late_at_{};
  std::optional<Late> found_late_;
  LateRanks late_;
};

}  // namespace atp
