#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "atp/base/failure_kind.h"
#include "atp/collective/base/collective_request.h"
#include "atp/collective/base/options.h"
#include "atp/collective/base/pending_operation.h"
#include "atp/collective/base/transport.h"
#include "atp/collective/network/shards.h"
#include "atp/collective/tuner.h"

namespace atp {

// Splits a communicator's operations into parts, passes them to its transports, and keeps the
// digest of their results. All ranks submit the same operations in the same order, and every
// decision here depends on that order alone, never on timing.
//
// If digests are compared, operations after the last one that a comparison covers are held until
// all results that it covers have arrived: the comparison needs these, and goes first.
//
// With a ring as a second path, the path of an operation is chosen when it is sent, in the order of
// submission, by a rule that is the same on all ranks. From time to time the ranks exchange their
// times, with an internal operation that has no number. The times of an exchange take effect when
// the next one is due; the operation that follows waits until the earlier exchange has ended.
//
// Callers submit, and the transports' threads report which operations have ended. Callbacks run
// outside the lock, since they may submit the next operation. The dispatcher lives as long as an
// operation is in flight, even without its communicator.
class Dispatcher : public std::enable_shared_from_this<Dispatcher> {
 public:
  using Operations = std::vector<std::shared_ptr<PendingOperation>>;

  Dispatcher(const CommunicatorOptions& options,
             std::vector<std::shared_ptr<Transport>> transports);

  // Before the first operation: where operations are recorded.
  void record_to(std::shared_ptr<RecordedGroup> recorded) { recorded_ = std::move(recorded); }

  // Returns the parts of the operation, which has ended when all of them have.
  Operations submit(CollectiveRequest&& request);
  bool in_host_memory() const;

  // See Communicator::add_ring().
  Status add_ring(std::shared_ptr<Transport> ring, const CostModels& figures,
                  std::uint64_t judged_every);
  std::optional<TunerCounts> tuner_counts();

  // Why the job has failed, in any transport.
  std::optional<std::string> failure() const;
  // Also kNone if the job was only told to leave.
  FailureKind failure_kind() const;
  // The number of operations submitted so far.
  std::uint64_t submitted();
  // Waits until the transports have received everything submitted.
  void wait_until_sent(std::chrono::steady_clock::time_point until);

  // The transports to servers, or the one in the host's memory, then the ring, if there is one.
  const std::vector<std::shared_ptr<Transport>>& transports() const { return transports_; }
  std::size_t network_transports() const { return network_transports_; }
  // Null: not asked for.
  ResultDigest* digest() { return keeps_digest_ ? &digest_ : nullptr; }

 private:
  // All parts of one operation, in the order of their transports.
  struct Submission {
    std::uint64_t number = 0;
    Operations parts;
    std::vector<std::size_t> transports;
    std::shared_ptr<PendingOperation> comparison;  // that follows it, or null
    bool is_undecided = false;  // it has one part, whose transport is not chosen yet
  };
  // An operation that no transport accepted, and why.
  struct Refused {
    std::shared_ptr<PendingOperation> operation;
    std::string why;
  };
  using Refusals = std::vector<Refused>;

  // The state of the choice between two paths, with the ranks' times.
  struct Tuning {
    Tuning(const CostModels& figures, std::uint64_t every)
        : choice(figures), samples(figures), exchanges(every) {}
    Tuner choice;
    TunerSamples samples;
    ExchangePoints exchanges;
    std::uint64_t sent = 0;  // operations so far
    TunerCounts counts;
    MeasuredTimes told = no_times();  // the minimum over all ranks
    bool asked = false;               // there was an exchange
    bool asks = false;                // an exchange is in flight
  };

  // With mutex_ held.
  void record(CollectiveRequest& request);
  Submission cut(CollectiveRequest&& request, NumberFormat format);
  Submission whole(CollectiveRequest&& request, NumberFormat format);
  Operations submit_probe(CollectiveRequest request, NumberFormat format);
  bool ends_comparison(std::uint64_t number) const;
  // The operation and its comparison must both end before the operation's callback runs.
  std::shared_ptr<PendingOperation> make_comparison(const OperationName& after_this,
                                                    CollectiveRequest& request);
  void result_is_in(std::uint64_t number, DataType type, Bytes result, const Status& status);
  // `format`: that the caller has asked for.
  Status check(const CollectiveRequest& request, std::optional<NumberFormat> format) const;
  Status judge(const OperationName& name, std::span<const std::uint32_t> words, Status status);

  // With mutex_ held.
  Operations take(Submission submission, const Status& valid, Refusals& refused);
  void send(Submission submission, Refusals& refused);
  void send_where_it_is_faster(const std::shared_ptr<PendingOperation>& whole, Refusals& refused);
  void send_to_servers(const std::shared_ptr<PendingOperation>& whole,
                       const std::vector<Shards::Part>& parts, Refusals& refused);
  bool both_can_take(const PendingOperation& operation) const;
  // Whether the path of the next operation depends on an exchange in flight.
  bool awaits_times() const;
  void judge_paths(Refusals& refused);
  void ask_for_times(Refusals& refused);
  bool holds() const { return comparison_ != nullptr || awaits_times(); }
  void send_held(Refusals& refused);
  void send_to(std::size_t transport, const std::shared_ptr<PendingOperation>& part,
               Refusals& refused);
  void let_go(Refusals& refused);

  static void tell(const Refusals& refused);
  void has_ended(const Status& status);
  void times_are_in(const Status& status, const MeasuredTimes& times);
  void end_all_transports(const std::string& why);

  const CommunicatorOptions options_;
  // Changed only before the first operation.
  std::vector<std::shared_ptr<Transport>> transports_;
  const std::size_t network_transports_;
  std::unique_ptr<Tuning> tuning_;           // null: there is only one
  std::shared_ptr<RecordedGroup> recorded_;  // null: operations are recorded elsewhere, or not
  const bool keeps_digest_;
  ResultDigest digest_;
  std::atomic<bool> results_differ_{false};

  std::mutex mutex_;  // submissions reach all transports in the same order
  std::condition_variable sent_;
  Shards shards_;
  std::uint64_t next_number_ = 0;                 // for all-reduces
  std::uint64_t next_request_ = 0;                // for other collectives, which are in no digest
  std::shared_ptr<PendingOperation> comparison_;  // waits for results; null: nothing is held
  std::uint64_t compared_operations_ = 0;         // whose results the comparison needs
  std::deque<Submission> held_;
};

}  // namespace atp
