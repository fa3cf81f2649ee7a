#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "atp/base/failure_kind.h"
#include "atp/base/interrupt.h"
#include "atp/base/rank_set.h"
#include "atp/base/result.h"
#include "atp/collective/base/collective_request.h"
#include "atp/collective/base/options.h"
#include "atp/collective/base/request.h"
#include "atp/collective/base/result_digest.h"
#include "atp/collective/peer/peers.h"
#include "atp/collective/tuner.h"
#include "atp/collective/waits/late_ranks.h"

// A Communicator is one rank's membership in one job: a UDP socket, a thread that drives the worker
// of the core over it, and a queue of operations. All ranks must issue the same operations in the
// same order; several may be in flight. Its methods may be called from any thread.
//
// The tensor of an operation in flight belongs to the communicator's own thread until the operation
// has ended. An operation ends exactly once, with a sum or with an error. The first error breaks
// the sequence of operations for good: all pending and later ones fail with the same cause, and the
// program needs a new Communicator.
//
// After fork() the child has neither the thread nor the membership: every method returns an error
// there, and the destructor does nothing. The thread blocks all signals.

namespace atp {

class PendingOperation;
class Transport;

// A submitted operation. Copies refer to the same operation.
class Handle {
 public:
  Handle() = default;
  explicit Handle(PeerHandle of_peers) : of_peers_(std::move(of_peers)) {}
  // Blocks until the operation has ended; its error names the rank, switch or path.
  Status wait();
  // The same, but an interruption is an error too. The operation goes on, and may use its memory.
  Status wait_or_interrupted(const MaybeInterruption& interruption);
  bool done() const;
  // For a successful receive: the sender.
  std::size_t source() const { return of_peers_ ? of_peers_->source() : kAnyRank; }

 private:
  friend class Communicator;
  // One per shard that has a part, and whatever else must end before the operation ends.
  std::vector<std::shared_ptr<PendingOperation>> parts_;
  std::optional<PeerHandle> of_peers_;  // instead of parts
};

class Communicator {
 public:
  // Joins the job; blocks until every rank has joined or the join time-out has passed.
  static Result<std::unique_ptr<Communicator>> connect(const CommunicatorOptions& options);
  ~Communicator();  // leaves; operations still pending fail here and on the other ranks

  Rank rank() const;
  std::size_t world_size() const;
  std::size_t values_per_fragment() const;  // the agreed K; 0 in the host's memory

  // Starts an operation; the memory that the request names must live until it has ended.
  //
  // All-reduces combine any number of values, even 0. Their callbacks come on one of the
  // communicator's threads (there is one per lane), or in this call, if the operation is refused at
  // once or a later one is carried out `here`. A callback must not take a lock that others hold
  // around calls; it may call everything except shutdown(). With one rank nothing is sent.
  //
  // If all ranks share this host's memory, everything but barriers and transfers is available.
  // Sums of floats that only some ranks get are added in the order of ranks as float32
  // (shm/row_reduction.h), unless the format is kExact.
  Handle submit(CollectiveRequest request);
  bool in_host_memory() const;
  // An all-reduce of this tensor: its sum, unless `how` has another reduction.
  Handle all_reduce(Bytes tensor, ElementKind kind, CollectiveRequest how = {});
  Handle all_reduce(std::span<float> data, CollectiveRequest how = {});

  // Adds a ring as a second path for sums of float32 and all-reduces of int32, with the same bits.
  // All ranks call it, before the first operation. The figures, and later the ranks' measurements
  // (tuner.h), decide which path an operation takes; the ranks agree on the measurements after
  // every `judged_every` operations (0: never), and more often at first. No result depends on it.
  // If one path fails, both fail. Not for a communicator in the host's memory, with one rank, or
  // with the fixed scale.
  Status add_ring(std::shared_ptr<Transport> ring, const CostModels& figures,
                  std::uint64_t judged_every);
  // The choices so far; nothing without a ring.
  std::optional<TunerCounts> tuner_counts() const;

  // Waits for the operations in flight, leaves the job in good order, and waits for the others to
  // leave the server in this process, if there is one. Idempotent.
  Status shutdown(std::chrono::milliseconds timeout = std::chrono::seconds(10));
  // Fails everything in flight and leaves at once. Idempotent. In a callback it does not wait:
  // operations in flight end after the callback.
  void abort(const std::string& why);

  // Starts an abort() without waiting, from any thread; abort() or the destructor must still
  // follow. With several communicators, calling it on all first lets them end together.
  void give_up(const std::string& why);

  CounterList counters() const;
  // The ranks that this rank's oldest operation waits for, if it has waited for a second, or none
  // if it waits for a silent server; with several transports, those of the longest wait.
  std::optional<WaitedForRanks> waited_for() const;
  // How long sums in the network have waited so far for a single other rank, by rank. These are the
  // waits that the server has reported; it reports none before a fragment has timed out.
  std::map<Rank, Duration> waits() const;
  // Why the job has failed, if it has.
  std::optional<std::string> failure() const;
  FailureKind failure_kind() const;  // also kNone after an abort() or a fork

  // The digest of this rank's results, from the first operation up to the first that has not ended;
  // equal on all ranks. Nothing if the options did not ask for it.
  std::optional<DigestReading> digest() const;
  // The same, and starts a new digest with the next operation, so that a resumed run can be
  // compared with the last part of an uninterrupted one.
  std::optional<DigestReading> restart_digest();

 private:
  class Impl;
  explicit Communicator(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace atp
