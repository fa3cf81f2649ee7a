#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "atp/base/failure_kind.h"
#include "atp/base/rank_set.h"
#include "atp/base/result.h"
#include "atp/collective/base/collective_request.h"
#include "atp/collective/base/options.h"
#include "atp/collective/communicator.h"
#include "atp/collective/waits/late_ranks.h"

// A Group is one rank's membership in a group of ranks, with every collective and transfers between
// two ranks. Which transport carries an operation depends only on the request, which is the same on
// all ranks:
//
//   all_reduce of a type that switches add       through the network, or in the host's memory
//   everything else, if all ranks share a host   in its memory, but for barriers and transfers
//   the rest                                     from rank to rank over TCP
//
// All ranks must submit the same collectives in the same order; any number may be in flight. The
// memory of an operation in flight belongs to the group's threads until it has ended, exactly once,
// with a result or an error. The first error breaks the group for good: all pending and later
// operations fail with the same cause. Methods may be called from any thread. After fork() the
// child is not part of the group.

namespace atp {

class Group {
 public:
  // Joins the job and connects the ranks; blocks until every rank has come or the join time-out has
  // passed.
  static Result<std::unique_ptr<Group>> connect(const CommunicatorOptions& options);
  ~Group();  // leaves; operations still pending fail here and on the other ranks

  Rank rank() const;
  std::size_t world_size() const;

  // Starts an operation; the table at CollectiveRequest says which blocks it takes and gives. All
  // memory must live until it has ended.
  Handle submit(CollectiveRequest request);
  // Sums over all ranks, in place.
  Handle all_reduce(std::span<float> data);
  Handle broadcast(Bytes data, Rank root);
  Handle barrier();

  // Waits for the operations in flight and leaves in good order. Idempotent.
  Status shutdown(std::chrono::milliseconds timeout = std::chrono::seconds(10));
  // Fails everything in flight and leaves at once. Idempotent.
  void abort(const std::string& why);

  // Why the group has failed, if it has.
  std::optional<std::string> failure() const;
  FailureKind failure_kind() const;  // also kNone after an abort() or a fork
  CounterList counters() const;
  // For whom the oldest operation waits, if it has waited for a second; and for how long operations
  // have waited for each rank.
  std::optional<WaitedForRanks> waited_for() const;
  std::map<Rank, Duration> waits() const;

 private:
  class Impl;
  explicit Group(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace atp
