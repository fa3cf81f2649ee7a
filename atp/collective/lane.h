#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>

#include "atp/collective/closed_in_child.h"
#include "atp/collective/communicator.h"
#include "atp/collective/participant.h"
#include "atp/driver/udp/event_loop.h"

namespace atp {

struct LaneOptions {
  CommunicatorOptions communicator;  // its route is this lane's
  std::uint16_t shard = 0;           // which of the servers it leads to
  std::uint64_t nonce = 0;           // one for all lanes of a rank
};

// A communicator's way to one server: a socket of the worker, and the thread that drives it.
//
// Two sides share this object. The thread owns participant_ and the event loop. Callers and the
// thread meet in board_, under mutex_: operations and the wish to leave go in, phase, failure and
// counters come out, once each round of the loop.
class Lane : public std::enable_shared_from_this<Lane> {
 public:
  // A socket of its own, and a thread that has begun to join.
  static Result<std::shared_ptr<Lane>> open(const LaneOptions& options);
  Lane(const LaneOptions& options, std::uint16_t value_count, UdpSocket socket,
       std::unique_ptr<Waker> waker);

  Status wait_until_joined();
  // Takes the operation, or says why it takes none.
  std::optional<std::string> submit(std::shared_ptr<PendingOperation> operation);
  // As the communicator's; `timeout` is what `until` came from, for the text.
  Status shutdown(std::chrono::steady_clock::time_point until, std::chrono::milliseconds timeout);
  void abort(const std::string& why);
  // As abort(), but from any thread, also its own, and without waiting: shutdown() is still due.
  void give_up(const std::string& why);

  // Why nothing more can be summed here.
  std::optional<std::string> failure();
  std::size_t value_count();
  CounterList counters();
  void warn(const std::string& text) const;
  bool on_own_thread() const;

 private:
  // What the two sides tell each other.
  struct Board {
    std::deque<std::shared_ptr<PendingOperation>> submitted;
    std::optional<std::string> leave;  // this rank goes; why operations in flight fail
    bool closed = false;               // takes no more operations
    std::size_t pending = 0;           // taken by the participant and not ended
    ParticipantPhase phase = ParticipantPhase::kJoining;
    std::uint16_t value_count = 0;
    std::optional<std::string> failure;
    bool ended = false;  // the thread is gone, or about to go
    Counters<WorkerCounter> worker_counters;
    UdpCounters udp_counters;
  };

  // What the event loop drives: the participant, and the board once a round.
  class Node {
   public:
    explicit Node(Lane& lane) : lane_(lane), participant_(lane.participant_) {}
    void handle_packet(Instant now, const Endpoint& from, std::span<const std::uint8_t> bytes,
                       Outbox& out) {
      participant_.handle_packet(now, from, bytes, out);
    }
    void handle_unreachable(Instant now, const Endpoint& whom, Outbox& out) {
      participant_.handle_unreachable(now, whom, out);
    }
    void handle_too_big(Instant now, const Endpoint& whom, std::size_t mtu) {
      participant_.handle_too_big(now, whom, mtu);
    }
    void handle_timeout(Instant now, Outbox& out) { participant_.handle_timeout(now, out); }
    void poll_transmit(Instant now, Outbox& out) { participant_.poll_transmit(now, out); }
    Instant next_timeout() const { return participant_.next_timeout(); }
    void on_round(Instant now) { lane_.on_round(now); }

   private:
    Lane& lane_;
    Participant& participant_;
  };

  void start();
  void run();
  void on_round(Instant now);
  void take_commands(Instant now);
  void publish();
  void note_failure(const std::string& why);
  void close(const std::string& why, std::chrono::steady_clock::time_point until);

  const CommunicatorOptions options_;
  UdpSocket socket_;
  const ClosedInChild closed_in_child_;
  std::unique_ptr<Waker> waker_;
  Participant participant_;
  EventLoop<Node>* loop_ = nullptr;  // lives in run()
  std::thread thread_;

  std::mutex mutex_;
  std::condition_variable changed_;
  Board board_;
};

}  // namespace atp
