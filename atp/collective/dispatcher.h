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

namespace atp {

// Brings a communicator's operations to its lanes, cut into a part for each, and keeps the digest
// of their results. All ranks submit the same operations in the same order, and nothing else
// decides here: not who is ready, nor when.
//
// Where digests are compared, the operations behind the last one of a comparison are held until the
// results before it are in, as the comparison needs them and goes first.
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

  // Why nothing more can be summed, in any lane.
  std::optional<std::string> failure() const;
  // How many operations, so far.
  std::uint64_t submitted();
  // Waits until the lanes have all that was submitted.
  void wait_until_sent(std::chrono::steady_clock::time_point until);

  const std::vector<std::shared_ptr<Way>>& lanes() const { return lanes_; }
  // Null: none was asked for.
  ResultDigest* digest() { return keeps_digest_ ? &digest_ : nullptr; }

 private:
  // All parts of one operation, in the order of the lanes that get them.
  struct Submission {
    std::uint64_t number = 0;
    Operations parts;
    std::vector<std::size_t> lanes;
    std::shared_ptr<PendingOperation> comparison;  // that follows it, or null
  };
  // An operation that no lane has taken, and why.
  struct Refused {
    std::shared_ptr<PendingOperation> operation;
    std::string why;
  };
  using Refusals = std::vector<Refused>;

  Submission cut(const OperationName& name, const Values& values, AllReduceOptions options);
  bool ends_comparison(std::uint64_t number) const;
  // Gives both their share of the callback.
  std::shared_ptr<PendingOperation> make_comparison(const OperationName& after_this,
                                                    AllReduceOptions& options);
  void result_is_in(const OperationName& name, const Values& values, const Status& status);
  Status judge(const OperationName& name, std::span<const std::uint32_t> words, Status status);

  // With mutex_ held.
  void send(Submission submission, Refusals& refused);
  void send_to(std::size_t lane, const std::shared_ptr<PendingOperation>& part, Refusals& refused);
  void let_go(Refusals& refused);

  static void tell(const Refusals& refused);

  const CommunicatorOptions options_;
  const std::vector<std::shared_ptr<Way>> lanes_;
  const bool keeps_digest_;
  ResultDigest digest_;

  std::mutex mutex_;  // submissions reach all lanes in one order
  std::condition_variable sent_;
  Shards shards_;
  std::uint64_t next_number_ = 0;
  std::shared_ptr<PendingOperation> comparison_;  // waits for results; null: nothing is held
  std::uint64_t compared_operations_ = 0;         // of which the comparison needs the results
  std::deque<Submission> held_;
};

}  // namespace atp
