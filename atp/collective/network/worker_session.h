#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "atp/base/failure_kind.h"
#include "atp/collective/network/failure_text.h"
#include "atp/collective/network/operation_table.h"
#include "atp/collective/network/slow_rank.h"
#include "atp/collective/recorder/flight_recorder.h"
#include "atp/collective/waits/late_ranks.h"
#include "atp/core/worker/worker.h"

// The worker of the core together with the callers' operations: everything that the communicator's
// thread owns and only that thread touches. The event loop drives worker() with tensors(). This
// class passes the worker its operations, and turns its events into ended operations, warnings and
// a phase.

namespace atp {

enum class SessionPhase : std::uint8_t { kJoining, kJoined, kFailed, kLeft };

class WorkerSession {
 public:
  using Tell = std::function<void(const std::string&)>;

  // `warn` receives warnings for the user while the job continues.
  WorkerSession(const WorkerConfig& config, const FailureContext& context, Tell warn);

  // Where its events are recorded; may be null.
  void record_to(std::shared_ptr<RecordedGroup> recorded) { recorded_ = std::move(recorded); }

  Worker& worker() { return worker_; }
  Tensors& tensors() { return table_; }

  // Operations start in the order of these calls.
  void submit(std::shared_ptr<PendingOperation> operation);
  // Fails all pending and later operations with this error, and leaves the job. `in_order`: nothing
  // is wrong, so the others are given no cause.
  void leave(Instant now, const std::string& why, bool in_order = false);
  // The same because of something that only this rank knows.
  void give_up(Instant now, const std::string& why);
  // Fails the operations without leaving the job: the other ranks will find the same cause by
  // themselves, and should not blame this rank.
  void stop(const std::string& why);
  // Packets to `whom` may have at most `mtu` bytes. If fragments are larger, nothing can be summed
  // any more, so this rank leaves with an error.
  void handle_too_big(Instant now, const Endpoint& whom, std::size_t mtu);
  // Passes waiting operations to the worker and handles its events.
  void on_round(Instant now);

  // The operations that have ended since the last call. Tell their callers after failure() and the
  // counters have been published.
  std::vector<EndedOperation<PendingOperation>> take_ended() { return std::exchange(ended_, {}); }

  SessionPhase phase() const { return phase_; }
  // This rank has left, or there is no server to tell.
  bool has_left() const { return phase_ == SessionPhase::kLeft || unheard_; }
  // Why the job is over, once phase() is kFailed or this rank has left.
  const std::optional<std::string>& failure() const { return failure_; }
  // kNone for a reason that was passed to leave() or stop().
  FailureKind failure_kind() const { return failure_kind_; }
  // The ranks that the oldest operation waits for, if it has waited for a second; none if it waits
  // for a silent server.
  std::optional<WaitedForRanks> waited_for(Instant now) const;
  // By the worker's own rank numbers.
  const std::shared_ptr<const SlowRank::Waits>& waits() const { return slow_.waits(); }
  std::size_t pending() const { return table_.size() + waiting_.size(); }

 private:
  // Warns the user, and records it with the ranks concerned.
  void tell(RecordedKind kind, const std::string& text, const RankSet& ranks = {});
  void record(RecordedKind kind, const std::string& text, const RankSet& ranks = {});
  void record_losses(Instant now);
  void start_waiting(Instant now);
  void handle_event(Instant now, const Event& event);
  void tell_of_slow_rank(Instant now);
  void tell_of_joining(Instant now);
  void tell_of_leaving(Instant now);
  void tell_of_detaching(const Event& event);
  FailureContext context_now() const;
  std::string text_of(const PendingOperation* operation) const;
  void answer_questions();
  void fail(Instant now, const Event& event);
  void end(std::shared_ptr<PendingOperation> operation, const std::string& why);
  void end_all(const std::string& why);

  Worker worker_;
  OperationTable table_;                                   // the worker has them
  std::deque<std::shared_ptr<PendingOperation>> waiting_;  // the worker had no room yet
  // On its way to or from the others: there may be no memory for that, and none may get lost.
  std::shared_ptr<PendingOperation> moving_;
  FailureContext context_;
  Tell warn_;
  std::shared_ptr<RecordedGroup> recorded_;
  Instant losses_recorded_{};
  std::uint64_t repeats_recorded_ = 0;
  std::uint64_t cuts_recorded_ = 0;
  SlowRank slow_;
  SessionPhase phase_ = SessionPhase::kJoining;
  Instant silent_since_ = kNever;  // the server, as far as context_.silence tells
  bool unheard_ = false;
  std::optional<Instant> joining_since_;
  bool joining_told_ = false;         // for whom it waits then
  Instant leaving_told_at_ = kNever;  // that the server has not acknowledged it
  Detached detached_;                 // the last time
  std::vector<EndedOperation<PendingOperation>> ended_;
  std::optional<std::string> failure_;
  FailureKind failure_kind_ = FailureKind::kNone;
};

}  // namespace atp
