#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "atp/collective/communicator.h"
#include "atp/collective/pending_operation.h"
#include "atp/collective/shards.h"
#include "atp/collective/way.h"
#include "atp/collective/way_choice.h"

namespace atp {

// Brings a communicator's operations to its lanes, cut into a part for each, and keeps the digest
// of their results. All ranks submit the same operations in the same order, and nothing else
// decides here: not who is ready, nor when.
//
// Where digests are compared, the operations behind the last one of a comparison are held until the
// results before it are in, as the comparison needs them and goes first.
//
// With a ring as a second way, which of the two an operation takes is decided when it is sent, in
// the order of submission, by a rule that is the same at all ranks. From time to time they tell one
// another their times, by an operation of its own that has no number; the one that follows so many
// operations later, and what is behind it, waits until these are in, since from there on they
// count.
//
// Callers submit, and the lanes' threads say what has ended; what is left to be told is told
// outside the lock, since whoever is told may submit the next operation. It lives as long as an
// operation is under way, also without its communicator.
class Dispatcher : public std::enable_shared_from_this<Dispatcher> {
 public:
  using Operations = std::vector<std::shared_ptr<PendingOperation>>;

  Dispatcher(const CommunicatorOptions& options, std::vector<std::shared_ptr<Way>> lanes);

  // The parts of the operation, which has ended when all of them have.
  Operations submit(const Values& values, AllReduceOptions options);
  // What is no all-reduce, in the host's memory; `values` of what is moved as it is are bytes.
  Operations submit(const Values& values, HostRequest request, AllReduceOptions options);

  // As Communicator::add_ring().
  Status add_ring(std::shared_ptr<Way> ring, const FiguresOfWays& figures,
                  std::uint64_t judged_every);
  std::optional<WayCounts> way_counts();

  // Why nothing more can be summed, in any lane.
  std::optional<std::string> failure() const;
  // How many operations, so far.
  std::uint64_t submitted();
  // Waits until the lanes have all that was submitted.
  void wait_until_sent(std::chrono::steady_clock::time_point until);

  // Those to servers, or that in the host's memory, and then the ring, if there is one.
  const std::vector<std::shared_ptr<Way>>& lanes() const { return lanes_; }
  std::size_t network_lanes() const { return network_lanes_; }
  // Null: none was asked for.
  ResultDigest* digest() { return keeps_digest_ ? &digest_ : nullptr; }

 private:
  // All parts of one operation, in the order of the lanes that get them.
  struct Submission {
    std::uint64_t number = 0;
    Operations parts;
    std::vector<std::size_t> lanes;
    std::shared_ptr<PendingOperation> comparison;  // that follows it, or null
    bool is_undecided = false;                     // of one part, that has no lane yet
  };
  // An operation that no lane has taken, and why.
  struct Refused {
    std::shared_ptr<PendingOperation> operation;
    std::string why;
  };
  using Refusals = std::vector<Refused>;

  // Where there are two ways, and the ranks' times.
  struct Ways {
    Ways(const FiguresOfWays& figures, std::uint64_t every)
        : choice(figures), samples(figures), judged_every(every) {}
    WayChoice choice;
    WaySamples samples;
    const std::uint64_t judged_every;
    std::uint64_t sent = 0;  // operations
    WayCounts counts;
    WayTimes told = no_times();  // by all ranks: the least
    bool asked = false;          // they have been, once at least
    bool asks = false;           // they have not all answered
  };

  Submission cut(const OperationName& name, const Values& values, AllReduceOptions options);
  Operations submit_probe(const Values& values, AllReduceOptions options);
  bool ends_comparison(std::uint64_t number) const;
  // Gives both their share of the callback.
  std::shared_ptr<PendingOperation> make_comparison(const OperationName& after_this,
                                                    AllReduceOptions& options);
  void result_is_in(const OperationName& name, const Values& values, const Status& status);
  Status judge(const OperationName& name, std::span<const std::uint32_t> words, Status status);

  // With mutex_ held.
  Operations take(Submission submission, const Status& valid, Refusals& refused);
  void send(Submission submission, Refusals& refused);
  void send_where_it_is_faster(const std::shared_ptr<PendingOperation>& whole, Refusals& refused);
  void send_to_servers(const std::shared_ptr<PendingOperation>& whole,
                       const std::vector<Shards::Part>& parts, Refusals& refused);
  bool both_can_take(const PendingOperation& operation) const;
  // The next operation's way depends on times that are not in.
  bool awaits_times() const;
  void judge_ways(Refusals& refused);
  void ask_for_times(Refusals& refused);
  bool holds() const { return comparison_ != nullptr || awaits_times(); }
  void send_held(Refusals& refused);
  void send_to(std::size_t lane, const std::shared_ptr<PendingOperation>& part, Refusals& refused);
  void let_go(Refusals& refused);

  static void tell(const Refusals& refused);
  void has_ended(const Status& status);
  void times_are_in(const Status& status, const WayTimes& times);
  void end_all_ways(const std::string& why);

  const CommunicatorOptions options_;
  // Changed before the first operation only.
  std::vector<std::shared_ptr<Way>> lanes_;
  const std::size_t network_lanes_;
  std::unique_ptr<Ways> ways_;  // null: there is only one
  const bool keeps_digest_;
  ResultDigest digest_;

  std::mutex mutex_;  // submissions reach all lanes in one order
  std::condition_variable sent_;
  Shards shards_;
  std::uint64_t next_number_ = 0;                 // of an all-reduce
  std::uint64_t next_request_ = 0;                // of another collective, which is in no digest
  std::shared_ptr<PendingOperation> comparison_;  // waits for results; null: nothing is held
  std::uint64_t compared_operations_ = 0;         // of which the comparison needs the results
  std::deque<Submission> held_;
};

}  // namespace atp
