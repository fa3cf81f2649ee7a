#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "atp/collective/failure_text.h"
#include "atp/collective/operation_table.h"
#include "atp/core/worker/worker.h"

// The worker of the core together with the operations that callers have given it: everything that
// the communicator's thread owns, and only that thread touches. It is what the event loop drives
// (DrivenNode), passes the worker the tensors, and turns the worker's events into ended operations,
// warnings and a phase.

namespace atp {

enum class ParticipantPhase : std::uint8_t { kJoining, kJoined, kFailed, kLeft };

class Participant {
 public:
  using Tell = std::function<void(const std::string&)>;

  // `warn` hears what a user should know although the job goes on; `failed`, once, why nothing more
  // can be summed, before the first operation ends with it.
  Participant(const WorkerConfig& config, const FailureContext& context, Tell warn,
              Tell failed = nullptr);

  void start(Instant now) { worker_.start(now); }
  void handle_packet(Instant now, const Endpoint& from, std::span<const std::uint8_t> bytes,
                     Outbox& out) {
    parent_answered_ = parent_answered_ || from == context_.route.front();
    worker_.handle_packet(now, from, bytes, table_, out);
  }
  void handle_unreachable(Instant now, const Endpoint& whom, Outbox& out) {
    worker_.handle_unreachable(now, whom, table_, out);
  }
  // Packets to `whom` may have no more than `mtu` bytes: if fragments have more, nothing can be
  // summed any more, so this rank leaves with an error.
  void handle_too_big(Instant now, const Endpoint& whom, std::size_t mtu);
  void handle_timeout(Instant now, Outbox& out) { worker_.handle_timeout(now, table_, out); }
  void poll_transmit(Instant now, Outbox& out) { worker_.poll_transmit(now, table_, out); }
  Instant next_timeout() const { return worker_.next_timeout(); }

  // Operations start in the order of these calls.
  void submit(std::shared_ptr<PendingOperation> operation);
  // Ends all operations that have not ended yet with this error, as well as all later ones, and
  // tells the job that this rank is gone.
  void leave(Instant now, const std::string& why);
  // Hands waiting operations to the worker and carries out what its events say.
  void on_round(Instant now);

  ParticipantPhase phase() const { return phase_; }
  // Why nothing more can be summed, once phase() is kFailed or this rank has left.
  const std::optional<std::string>& failure() const { return failure_; }
  std::size_t pending() const { return table_.size() + waiting_.size(); }
  std::uint16_t value_count() const { return worker_.value_count(); }
  const Counters<WorkerCounter>& counters() const { return worker_.counters(); }

 private:
  void start_waiting(Instant now);
  void handle_event(const Event& event);
  void tell_of_detaching(const Endpoint& parent);
  void tell_of_return(const Endpoint& parent);
  void give_up(const std::string& why);
  void fail(const Event& event);
  void end_all(const std::string& why);

  Worker worker_;
  OperationTable table_;                                   // the worker has them
  std::deque<std::shared_ptr<PendingOperation>> waiting_;  // the worker had no room yet
  FailureContext context_;
  Tell warn_;
  Tell failed_;
  ParticipantPhase phase_ = ParticipantPhase::kJoining;
  bool parent_answered_ = false;   // something came from the first hop, ever
  bool detached_at_once_ = false;  // before anything came from it
  std::optional<std::string> failure_;
};

}  // namespace atp
