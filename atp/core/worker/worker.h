#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "atp/core/placement.h"
#include "atp/core/worker/congestion_window.h"
#include "atp/core/worker/fragment_values.h"
#include "atp/core/worker/loss_recovery.h"
#include "atp/core/worker/operation_queue.h"
#include "atp/core/worker/retransmission_timeout.h"
#include "atp/core/worker/send_window.h"
#include "atp/core/worker/worker_api.h"
#include "atp/core/worker/worker_membership.h"
#include "atp/core/worker/worker_turn.h"

// One socket of a worker: it joins a job, splits tensors into fragments, sends them to its tree in
// sequence order, repeats what stays unanswered, and writes the sums that come back
// (docs/protocol.md §2 and §5). Three source files, one for each verb: worker.cc (application),
// worker_send.cc (transmissions and repeats), worker_receive.cc. The rules stand beside: who
// belongs to the job in worker_membership.h, what is repeated in loss_recovery.h, how much may be
// on its way in congestion_window.h, what a fragment carries in fragment_values.h.
//
// Time moves only by the `now` that callers pass in. Any single loss is repaired without the
// application noticing; every operation ends with kCompleted or, in bounded time, with kFailed.
// After a failure the sequence spaces of the workers no longer agree, so the job is over: all
// pending operations fail with the same cause, and submit() refuses further ones.
//
// Invariants: an answered fragment is never read from its tensor again; a fragment is answered by
// exactly one PARAMETER of its whole identity; sequences are never reused.

namespace atp {

// One stream: an independent sequence space with its operations, placement and repeats.
struct Stream {
  Stream(const Placement& placement, const JobKey& job, std::uint16_t stream_id, std::uint32_t wmax,
         std::uint64_t first_sequence, std::size_t operations_max)
      : id(stream_id),
        window(wmax, first_sequence),
        operations(operations_max),
        indices(placement, job, stream_id, wmax) {}

  std::uint16_t id;
  SendWindow window;
  OperationQueue operations;
  IndexMap indices;
  LossRecovery recovery;
  std::uint64_t values_assigned = 0;  // decides which stream a tensor goes to
  std::uint64_t asked_end = 0;        // below it the server has asked, also for what is unsent
  Instant last_progress{};            // an answer, or the first that it waits for again

  // When the oldest operation fails for want of progress. One that waits for its exponents is
  // answered for by their stream, and exponents that wait for their values by those.
  Instant deadline() const {
    if (operations.empty() || !operations.front().has_begun()) return kNever;
    const Operation& oldest = operations.front();
    if (oldest.part == OperationPart::kExponents && window.idle()) return kNever;
    const Instant since = oldest.began > last_progress ? oldest.began : last_progress;
    return since + oldest.spec.timeout;
  }
  bool operator==(const Stream&) const = default;
};

// What the server has said of ranks that disagree about the operation of a fragment.
struct Mismatch {
  std::uint16_t stream = 0;
  std::uint64_t sequence = 0;
  std::uint32_t operation = 0;  // the fingerprint of the ranks `about`
  RankSet about;
  RankSet other;
  bool operator==(const Mismatch&) const = default;
};

class Worker {
 public:
  explicit Worker(const WorkerConfig& config);

  // Begins to join; kJoined follows, or kFailed within the join time-out.
  void start(Instant now) { membership_.start(now, config_); }

  // Queues an all-reduce over the tensor that Tensors shows under the returned id. Nothing if the
  // worker has not joined, is no longer usable, or there is no room: max_operations are open, or
  // were submitted to one stream since its oldest that is not answered.
  std::optional<OperationId> submit(Instant now, const OperationSpec& spec);

  // Fails what is pending and says nothing more, as after any failure. leave() may follow; without
  // it the rank's lease ends.
  void stop() { fail({.code = FailureCode::kLeft, .endpoint = server()}); }
  // Fails what is pending and sends LEAVE until it is acknowledged, at most for a lease: kLeft. The
  // cause is for the other ranks; empty where this one has only finished.
  void leave(Instant now, std::string_view cause = {});

  void handle_packet(Instant now, const Endpoint& from, std::span<const std::uint8_t> bytes,
                     Tensors& tensors, Outbox& out);
  void handle_unreachable(Instant now, const Endpoint& whom, Tensors& tensors, Outbox& out);
  void handle_timeout(Instant now, Tensors& tensors, Outbox& out);
  void poll_transmit(Instant now, Tensors& tensors, Outbox& out);
  Instant next_timeout() const;
  std::optional<Event> poll_event();

  const Counters<WorkerCounter>& counters() const { return counters_; }
  std::uint16_t value_count() const { return agreed().value_count; }
  bool joined() const { return membership_.joined(); }
  bool attached() const { return membership_.attached(); }
  // The ranks without which the oldest operation has not gone on for a second, as the server says,
  // and since when; nobody: kNever.
  const RankSet& waited_for() const { return membership_.missing(); }
  Instant waiting_since() const { return membership_.waiting_since(); }
  // Of the failure, or of the last kWaiting.
  const FailureDetail& detail() const { return membership_.detail(); }
  // The server's, once all have agreed on it; until then the configuration's.
  Duration lease() const { return membership_.lease(config_); }

  bool operator==(const Worker&) const = default;

 private:
  using Path = WorkerMembership::Path;

  // worker.cc
  WorkerTurn begin_turn(Instant now, Tensors& tensors, Outbox& out) {
    return {{now, config_, counters_, out}, tensors, events_};
  }
  const JoinAck& agreed() const { return membership_.agreement(); }
  FragmentValues values() const { return {config_.world_size, agreed().scale}; }
  bool has_express() const { return agreed().number_format != NumberFormat::kFixed; }
  Stream& express() { return streams_.back(); }
  const Endpoint& parent() const { return config_.route.front(); }
  const Endpoint& server() const { return config_.route.back(); }
  void judge_mismatch();
  void apply(const MembershipChange& change);
  void make_streams();
  // The kind of the fragments that carry its values.
  std::uint8_t kind_of(const OperationSpec& spec) const;
  // Takes a range of sequences for it.
  void enqueue(Stream& stream, Operation& operation);
  void complete(Stream& stream, Operation& operation);
  void fail(const Failure& failure);
  bool has_pending() const;
  void check_deadlines(Instant now);
  Stream* stream_of(std::uint16_t id);

  // worker_send.cc
  // The flags that it was sent with; nothing if the outbox was full.
  std::optional<std::uint8_t> put_gradient(WorkerTurn& turn, const Stream& stream,
                                           const Operation& operation, const FragmentShape& shape,
                                           std::uint64_t sequence, std::uint8_t flags,
                                           const Endpoint& to);
  bool keeps_from_switches(const Quantized& quantized) const;
  // Whether the exponents are agreed that the next first transmission needs; of exponents, whether
  // their values are near.
  bool may_send_next(WorkerTurn& turn, Stream& stream);
  bool values_are_near(const WorkerTurn& turn, Operation& exponents, std::uint64_t sequence);
  void transmit(WorkerTurn& turn);
  void send_new(WorkerTurn& turn, Stream& stream);
  // The first transmission of the stream's next fragment. False if the outbox was full.
  bool send_next(WorkerTurn& turn, Stream& stream, const Operation& operation,
                 const FragmentShape& shape);
  // Why a fragment is repeated.
  enum class Cause : std::uint8_t { kAsked, kLost, kTimeout, kProbe };
  // One step up the ladder (a probe: none), or to `least`. False if the outbox was full.
  bool repeat(WorkerTurn& turn, Stream& stream, std::uint64_t sequence, Rung least, Cause cause);
  void repeat_paced(WorkerTurn& turn, Stream& stream);
  // At most so many.
  void repeat_overtaken(WorkerTurn& turn, Stream& stream, int credit);
  bool repeat_early(WorkerTurn& turn, Stream& stream, std::uint64_t sequence);
  void handle_stream_timer(WorkerTurn& turn, Stream& stream);
  void cut_window_for_loss();

  // worker_receive.cc
  void handle_parameter(WorkerTurn& turn, Path path, const PacketView& packet);
  void accept_parameter(WorkerTurn& turn, Stream& stream, const PacketView& packet);
  void count_parameter(const PacketView& packet, const SentFragment& fragment);
  void note_asked(const PacketView& packet);
  void handle_nack(WorkerTurn& turn, Path path, const PacketView& packet);
  void handle_status(WorkerTurn& turn, Path path, const PacketView& packet);
  void handle_mismatch(WorkerTurn& turn, const PacketView& packet, const StatusMessage& status);
  // The in-flight fragment that a packet is about; its drop counter otherwise.
  Stream* find_in_flight(const PacketView& packet);

  WorkerConfig config_;
  WorkerMembership membership_;
  std::vector<Stream> streams_;  // none until the membership is agreed; the express one is last
  RetransmissionTimeout clock_;
  CongestionWindow congestion_;
  std::uint64_t in_flight_bytes_ = 0;
  bool held_back_ = false;       // the congestion window held packets back when last asked
  std::size_t next_stream_ = 0;  // which sends first the next time

  OperationId next_operation_;
  std::optional<Mismatch> mismatch_;
  std::uint32_t open_operations_ = 0;
  std::uint32_t open_small_ = 0;  // of them, on the express stream
  EventQueue events_;
  Counters<WorkerCounter> counters_;
};

}  // namespace atp
