#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "atp/base/failure_kind.h"
#include "atp/collective/ring/links.h"
#include "atp/collective/ring/request.h"
#include "atp/collective/waits/late_ranks.h"

// A Ring is one rank's membership in a group whose ranks sum over TCP, each with its two
// neighbours: reduce-scatter, all-gather, and all-reduce, which is the first followed by the
// second. It needs no switch and no server. A rank sends (N-1)/N of the values in a reduce-scatter
// or an all-gather and twice that in an all-reduce, the minimum without help from the network.
// (Over all ranks exactly N-1 and 2(N-1) times the values, even if they do not divide evenly;
// number_stages.h has what an all-reduce of float32 sends besides, or instead.)
//
// All ranks must submit the same operations in the same order; several may be in flight. Sums have
// the same bits on every rank and in every run: an all-reduce of float32 has the network's bits
// (number_stages.h); all others are added as floats in a fixed order (schedule.h). Methods may be
// called from any thread. The memory of an operation in flight belongs to the ring's own thread
// until it has ended. After the first error all pending and later operations fail with the same
// cause, and the program needs a new ring. After fork() the child is not part of the ring.

namespace atp {

class RingOperation;

// A submitted operation. Copies refer to the same operation.
class RingHandle {
 public:
  explicit RingHandle(std::shared_ptr<RingOperation> operation);
  // Blocks until the operation has ended; its error names the rank and its address.
  Status wait() const;
  // The same, but an interruption is an error too. The operation goes on, and may use its memory.
  Status wait_or_interrupted(const MaybeInterruption& interruption) const;
  bool done() const;

 private:
  std::shared_ptr<RingOperation> operation_;
};

// The counters of one ring (name, value).
using RingCounterList = std::vector<std::pair<std::string, std::uint64_t>>;

class Ring {
 public:
  // Blocks until both neighbours are connected or the time-out has passed. The addresses are those
  // of all ranks' listeners, by rank; `listener` is this rank's.
  static Result<std::unique_ptr<Ring>> connect(const TcpListener& listener,
                                               const RingOptions& options,
                                               const std::vector<Endpoint>& addresses);
  ~Ring();  // leaves; operations still pending fail here and on the other ranks

  std::size_t rank() const;
  std::size_t world_size() const;

  RingHandle submit(RingRequest request);

  // Waits for the operations in flight and leaves in good order. Idempotent.
  Status shutdown(std::chrono::milliseconds timeout = std::chrono::seconds(10));
  // Fails everything in flight and leaves at once. Idempotent.
  void abort(const std::string& why);
  // Starts an abort() without waiting, from any thread; abort() or the destructor must still
  // follow.
  void give_up(const std::string& why);
  // Fails everything in flight and everything later, without leaving, and tells the other ranks
  // `why`: they must not take this rank for the culprit.
  void stop(const std::string& why);

  // Why the ring has failed, if it has.
  std::optional<std::string> failure() const;
  FailureKind failure_kind() const;  // also kNone after an abort() or a fork
  // False: at `until` there were still operations in flight.
  bool wait_until_idle(std::chrono::steady_clock::time_point until);
  bool on_own_thread() const;

  RingCounterList counters() const;
  // For whom the oldest operation waits, if it has waited for a second; and for how long operations
  // have waited for each rank, in all waits of a second or more that have ended.
  std::optional<WaitedForRanks> waited_for() const;
  std::map<Rank, Duration> waits() const;

 private:
  class Impl;
  explicit Ring(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;  // shared with its thread
};

}  // namespace atp
