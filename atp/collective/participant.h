#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "atp/collective/failure_text.h"
#include "atp/collective/operation_table.h"
#include "atp/collective/slow_rank.h"
#include "atp/core/worker/worker.h"

// The worker of the core together with the operations that callers have given it: everything that
// the communicator's thread owns, and only that thread touches. The event loop drives worker() with
// tensors(); this hands the worker its operations, and turns its events into ended operations,
// warnings and a phase.

namespace atp {

enum class ParticipantPhase : std::uint8_t { kJoining, kJoined, kFailed, kLeft };

class Participant {
 public:
  using Tell = std::function<void(const std::string&)>;

  // `warn` hears what a user should know although the job goes on.
  Participant(const WorkerConfig& config, const FailureContext& context, Tell warn);

  Worker& worker() { return worker_; }
  Tensors& tensors() { return table_; }

  // Operations start in the order of these calls.
  void submit(std::shared_ptr<PendingOperation> operation);
  // Ends all operations that have not ended yet with this error, as well as all later ones, and
  // tells the job that this rank is gone.
  // `in_order`: nothing is wrong, so the others are given no cause.
  void leave(Instant now, const std::string& why, bool in_order = false);
  // Likewise, but without a word to the job: the ranks that have the same cause find it by
  // themselves, and should not take this rank for it.
  void stop(const std::string& why);
  // Packets to `whom` may have no more than `mtu` bytes: if fragments have more, nothing can be
  // summed any more, so this rank leaves with an error.
  void handle_too_big(Instant now, const Endpoint& whom, std::size_t mtu);
  // Hands waiting operations to the worker and carries out what its events say.
  void on_round(Instant now);

  // What has ended since, to be told when failure() and the counters can be seen.
  std::vector<EndedOperation<PendingOperation>> take_ended() { return std::exchange(ended_, {}); }

  ParticipantPhase phase() const { return phase_; }
  // Nobody needs to hear of this rank any more, or the server that would does not exist.
  bool has_left() const { return phase_ == ParticipantPhase::kLeft || unheard_; }
  // Why nothing more can be summed, once phase() is kFailed or this rank has left.
  const std::optional<std::string>& failure() const { return failure_; }
  // Whom the oldest operation waits for, if it has for a second.
  std::optional<WaitedForRanks> waited_for(Instant now) const;
  std::size_t pending() const { return table_.size() + waiting_.size(); }

 private:
  void start_waiting(Instant now);
  void handle_event(Instant now, const Event& event);
  void tell_of_slow_rank(Instant now);
  void tell_of_detaching(const Event& event);
  void tell_of_return(const Endpoint& parent);
  FailureContext context_now() const;
  std::string oldest_text() const;
  void fail(Instant now, const Event& event);
  void end(std::shared_ptr<PendingOperation> operation, const std::string& why);
  void end_all(const std::string& why);

  Worker worker_;
  OperationTable table_;                                   // the worker has them
  std::deque<std::shared_ptr<PendingOperation>> waiting_;  // the worker had no room yet
  FailureContext context_;
  Tell warn_;
  SlowRank slow_;
  ParticipantPhase phase_ = ParticipantPhase::kJoining;
  bool unheard_ = false;
  bool detached_at_once_ = false;  // before anything came from the first hop
  std::vector<EndedOperation<PendingOperation>> ended_;
  std::optional<std::string> failure_;
};

}  // namespace atp
