#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "atp/base/failure_kind.h"
#include "atp/base/interrupt.h"
#include "atp/collective/base/collective_request.h"
#include "atp/collective/peer/links.h"
#include "atp/collective/waits/late_ranks.h"

// Peers is one rank's membership in a group in which any two ranks can exchange messages, over TCP
// connections that are opened when first needed. It has all collectives (plan.h describes their
// algorithms) and transfers between two ranks. It needs no switch and no server.
//
// All ranks must submit the same collectives in the same order; any number may be in flight.
// Transfers match by their tags, in order. The results depend on the inputs alone, to the bit, and
// a sum is the same on all ranks. Methods may be called from any thread. The memory of an operation
// in flight belongs to the group's own thread until it has ended. After the first error all pending
// and later operations fail with the same cause, and the program needs a new group. After fork()
// the child is not part of the group.

namespace atp {

class PeerOperation;

// A submitted operation. Copies refer to the same operation.
class PeerHandle {
 public:
  explicit PeerHandle(std::shared_ptr<PeerOperation> operation);
  // Blocks until the operation has ended; its error names the rank and its address.
  Status wait() const;
  // False if the wait was interrupted (atp/base/interrupt.h) before the operation has ended.
  bool wait_or_interrupted() const;
  // The same, but an interruption is an error too. The operation goes on, and may use its memory.
  Status wait_or_interrupted(const MaybeInterruption& interruption) const;
  bool done() const;
  // For a successful receive: the sender.
  std::size_t source() const;

 private:
  std::shared_ptr<PeerOperation> operation_;
};

using PeerCounterList = std::vector<std::pair<std::string, std::uint64_t>>;

class Peers {
 public:
  // Does not wait for other ranks. `addresses` are those of all ranks' listeners, by rank;
  // `listener` is this rank's.
  static Result<std::unique_ptr<Peers>> start(std::shared_ptr<const TcpListener> listener,
                                              const PeerOptions& options,
                                              std::vector<Endpoint> addresses);
  ~Peers();  // leaves; operations still pending fail here and on the other ranks

  std::size_t rank() const;
  std::size_t world_size() const;

  PeerHandle submit(CollectiveRequest request);
  // Reserves numbers for this many collectives and returns the first, for
  // CollectiveRequest::number: they keep their place in the order of all ranks even if they are
  // submitted later.
  std::uint64_t reserve(std::size_t count);
  // No rank will use this number.
  void skip(std::uint64_t number);

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

  std::optional<std::string> failure() const;
  FailureKind failure_kind() const;  // also kNone after an abort() or a fork
  bool on_own_thread() const;
  // False: at `until` there were still operations in flight.
  bool wait_until_idle(std::chrono::steady_clock::time_point until);
  PeerCounterList counters() const;
  // For whom the oldest operation waits, if it has waited for a second; and for how long operations
  // have waited for each rank, in all waits of a second or more that have ended.
  std::optional<WaitedForRanks> waited_for() const;
  std::map<Rank, Duration> waits() const;

 private:
  class Impl;
  explicit Peers(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;  // shared with its thread
};

}  // namespace atp
