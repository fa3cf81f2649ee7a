#pragma once

#include <poll.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "atp/base/counters.h"
#include "atp/collective/host/closed_in_child.h"
#include "atp/collective/ring/links.h"
#include "atp/collective/ring/messages.h"
#include "atp/collective/ring/transfers.h"

// Carries out the operations of one rank over its two connections. One thread drives it; it never
// waits.
//
// When something breaks, every rank shall name the same culprit. So a rank that sees a connection
// end waits a moment for what the neighbours have to say: the failure of one rank travels around
// the ring as a message, in both directions, while the ends of connections that it causes are only
// its echo. In a ring without progress all wait for all; the one to speak is the rank that knows
// more: the rank before it has not begun the operation, or a neighbour does not answer.

namespace atp {

// What a rank counts about its ring, at the system calls. TCP repeats what is lost by itself.
enum class RingCounter : std::uint8_t {
  kBytesSent,        // of all stages: what the model of a ring counts
  kHeaderBytesSent,  // 32 for each operation
  kBytesReceived,    // both
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
  // Moves what can be moved, hears what there is to hear, ends what has ended or is overdue.
  // `ready` is what poll() made of the interests.
  void work(SteadyTime now, const std::array<pollfd, 4>& ready);
  // What has ended since, to be told outside: a callback may do anything, and shall find the
  // counters as they were at the end.
  std::vector<EndedOperation<RingOperation>> take_ended() { return std::exchange(ended_, {}); }
  // Tells the neighbours that this rank goes. What is in flight fails.
  void leave(const std::string& why);

  // What to wait for after work(), besides submissions.
  std::array<pollfd, 4> interests();
  std::optional<SteadyTime> next_timeout() const;

  // Why nothing works any more.
  const std::optional<std::string>& failure() const { return failure_; }
  std::size_t pending() const { return transfers_.size(); }
  const RingCounters& counters() const { return counters_; }
  void count_wait() { counters_.add(RingCounter::kWaits); }

 private:
  // A neighbour, as it shows itself.
  struct Peer {
    explicit Peer(Neighbour its_links) : links(std::move(its_links)), line(links.control) {}
    Neighbour links;
    MessageLine line;
    bool left = false;                   // said farewell
    bool data_ended = false;             // its connection for data is over
    std::optional<SteadyTime> asked_at;  // first since the last progress, whether it is there
    SteadyTime heard_at{};
  };
  // The end of a connection whose cause the neighbours may know better.
  struct Suspicion {
    std::string text;
    SteadyTime until;
  };

  bool move_some();
  bool send_some();
  bool receive_some();
  void end_done();
  void note_end(Peer& peer, const Moved& moved);
  void read_messages(Peer& peer);
  void handle(Peer& peer, const Message& message);
  void check_time();
  void ask_neighbours();
  std::optional<std::string> overdue();
  std::optional<std::string> silent_for(std::chrono::milliseconds limit) const;
  void suspect(const std::string& text);
  void miss(const Peer& peer);  // which has left before all was done
  void fail_after_what_has_come(const std::string& why);
  void fail(const std::string& why);
  void refuse(std::shared_ptr<RingOperation> operation);
  void note_progress();
  std::string mismatch_text(const Transfer& transfer) const;
  std::chrono::milliseconds patience() const;  // with the oldest operation
  std::chrono::milliseconds asking_interval() const;
  std::chrono::milliseconds grace() const;
  SteadyTime deadline() const { return progress_at_ + patience(); }

  const RingOptions options_;
  const std::string own_name_;
  // The lines refer to the sockets, so the peers stay where they are.
  const std::unique_ptr<Peer> before_;
  const std::unique_ptr<Peer> next_;
  const ClosedInChild closed_in_child_;
  Transfers transfers_;
  std::vector<EndedOperation<RingOperation>> ended_;
  std::unique_ptr<std::byte[]> stage_;
  RingCounters counters_;
  SteadyTime now_;
  SteadyTime progress_at_;  // or the first operation's submission
  SteadyTime ask_at_;       // the neighbours, whether they are there
  bool can_send_ = true;    // in this round
  bool can_receive_ = true;
  std::optional<Suspicion> suspicion_;
  std::optional<std::string> failure_;
};

}  // namespace atp
