#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "atp/core/placement.h"
#include "atp/core/worker/aggregator_room.h"
#include "atp/core/worker/congestion_window.h"
#include "atp/core/worker/fragment_values.h"
#include "atp/core/worker/loss_recovery.h"
#include "atp/core/worker/operation_queue.h"
#include "atp/core/worker/path_capacity.h"
#include "atp/core/worker/retransmission_timeout.h"
#include "atp/core/worker/send_window.h"
#include "atp/core/worker/worker_api.h"
#include "atp/core/worker/worker_membership.h"
#include "atp/core/worker/worker_turn.h"

// One socket of a worker: it joins a job, splits tensors into fragments, sends them to its tree in
// sequence order, repeats the unanswered ones, and writes the sums that come back
// (docs/inside/protocol §2 and §5). Three source files: worker.cc (application and timers),
// worker_send.cc (transmissions and repeats), worker_receive.cc. The rules have files of their own:
// membership in worker_membership.h, repeats in loss_recovery.h, bytes in flight in
// congestion_window.h, and the contents of fragments in fragment_values.h.
//
// Time advances only by the `now` that callers pass in. Any single loss is repaired without the
// application noticing. Every operation ends with kCompleted or, in bounded time, with kFailed.
// After a failure the sequence spaces of the workers no longer agree, so the job is over: all
// pending operations fail with the same cause, and submit() refuses further ones.
//
// Invariants: an answered fragment is never read from its tensor again; exactly one PARAMETER with
// its whole identity answers a fragment; sequences are never reused.

namespace atp {

// A fragment that the server waits for, of an operation whose description it does not know.
struct Question {
  ControlHead head;  // of the answer
  OperationId operation = 0;
  CauseText answer;  // empty: not given yet
  bool operator==(const Question&) const = default;
};

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
  std::uint64_t asked_end = 0;        // the server has asked for fragments below, unsent ones too
  Instant last_progress{};            // the last answer, or when it began to wait again
  Instant ends_by = kNever;           // the earliest of its operations
  std::optional<Question> question;

  // When the oldest operation fails for lack of progress. While it waits for its exponents, their
  // stream has the deadline; while exponents wait for their values, the values' stream has it.
  Instant deadline() const {
    if (operations.empty() || !operations.front().has_begun()) return kNever;
    const Operation& oldest = operations.front();
    if (oldest.part == OperationPart::kExponents && window.idle()) return kNever;
    const Instant since = oldest.began > last_progress ? oldest.began : last_progress;
    return since + oldest.spec.timeout;
  }
  bool operator==(const Stream&) const = default;
};

// The server's report of ranks that disagree about the operation of a fragment.
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

  // Starts joining; kJoined follows, or kFailed within the join time-out.
  void start(Instant now) { membership_.start(now, config_); }

  // Queues an all-reduce over the tensor that Tensors has under the returned id. Nothing if the
  // worker has not joined, its job is over, or there is no room: max_operations are open, or as
  // many were submitted to the stream since its oldest unanswered one.
  std::optional<OperationId> submit(Instant now, const OperationSpec& spec);

  // An operation that the server waits for, and whose description it does not know. The application
  // answers with describe(), for the displays of the server and the switches.
  std::optional<OperationId> asked_about() const;
  void describe(OperationId id, std::string_view text);

  // Fails pending operations and sends nothing more, as after any failure. leave() may follow;
  // without it the rank's lease ends.
  void stop() { fail({.code = FailureCode::kLeft, .endpoint = server()}); }
  // Fails pending operations and sends LEAVE until it is acknowledged, at most for a lease; then
  // kLeft. The cause is for the other ranks; empty if this one has simply finished.
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
  // The ranks for which the oldest operation has waited for a second, as the server reports, and
  // since when (kNever: no ranks).
  const RankSet& waited_for() const { return membership_.missing(); }
  Instant waiting_since() const { return membership_.waiting_since(); }
  // The details of the failure, or of the last kWaiting.
  const FailureDetail& detail() const { return membership_.detail(); }
  // The server's lease once the worker has joined; before that, the configuration's.
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
  // The kind of the fragments with its values.
  std::uint8_t kind_of(const OperationSpec& spec) const;
  // Assigns the operation a range of sequences.
  void enqueue(Stream& stream, Operation& operation);
  void complete(Stream& stream, Operation& operation);
  void fail(const Failure& noticed);
  Failure cause_of(const Failure& failure) const;
  bool has_pending() const;
  void check_deadlines(Instant now);
  Stream* stream_of(std::uint16_t id);

  // worker_send.cc
  // Returns the flags that it was sent with; nothing if the outbox is full.
  std::optional<std::uint8_t> put_gradient(WorkerTurn& turn, const Stream& stream,
                                           const Operation& operation, const FragmentShape& shape,
                                           std::uint64_t sequence, std::uint8_t flags,
                                           const Endpoint& to);
  bool keeps_from_switches(const Quantized& quantized) const;
  // Values: whether the exponents for the next first transmission are agreed. Exponents: whether
  // their values are near.
  bool may_send_next(WorkerTurn& turn, Stream& stream);
  bool values_are_near(const WorkerTurn& turn, Operation& exponents, std::uint64_t sequence);
  void transmit(WorkerTurn& turn);
  // Fragments, over all streams.
  std::uint64_t in_flight() const;
  bool has_room(const Stream& stream) const {
    return !room_.bounded() || stream.window.idle() || in_flight() < room_.fragments();
  }
  void send_new(WorkerTurn& turn, Stream& stream);
  // Sends the stream's next fragment for the first time. False if the outbox is full.
  bool send_next(WorkerTurn& turn, Stream& stream, const Operation& operation,
                 const FragmentShape& shape);
  // Why a fragment is repeated.
  enum class Cause : std::uint8_t { kAsked, kLost, kTimeout, kProbe };
  // Repeats one rung up the ladder (a probe: on the same rung), at least on `least`. False if the
  // outbox is full.
  bool repeat(WorkerTurn& turn, Stream& stream, std::uint64_t sequence, Rung least, Cause cause);
  void repeat_paced(WorkerTurn& turn, Stream& stream);
  // Repeats at most `credit` overtaken fragments.
  void repeat_overtaken(WorkerTurn& turn, Stream& stream, int credit);
  bool repeat_early(WorkerTurn& turn, Stream& stream, std::uint64_t sequence);
  void handle_stream_timer(WorkerTurn& turn, Stream& stream);
  void notice_loss(Instant now);
  void cut_window_for_loss();

  void tell_descriptions(WorkerTurn& turn);

  // worker_receive.cc
  void handle_parameter(WorkerTurn& turn, Path path, const PacketView& packet);
  void accept_parameter(WorkerTurn& turn, Stream& stream, const PacketView& packet);
  void count_parameter(const PacketView& packet, const SentFragment& fragment);
  void note_asked(const PacketView& packet);
  void handle_nack(WorkerTurn& turn, Path path, const PacketView& packet);
  void handle_status(WorkerTurn& turn, Path path, const PacketView& packet);
  void note_question(const PacketView& packet, const StatusMessage& status);
  void handle_mismatch(WorkerTurn& turn, const PacketView& packet, const StatusMessage& status);
  // The stream of the in-flight fragment that a packet is about; otherwise counts the drop.
  Stream* find_in_flight(const PacketView& packet);

  WorkerConfig config_;
  WorkerMembership membership_;
  std::vector<Stream> streams_;  // empty until joined; the express stream is last
  RetransmissionTimeout clock_;
  CongestionWindow congestion_;
  AggregatorRoom room_;
  PathCapacity capacity_;
  std::uint64_t in_flight_bytes_ = 0;
  bool held_back_ = false;       // the congestion window held packets back the last time
  std::size_t next_stream_ = 0;  // the stream that sends first the next time

  OperationId next_operation_;
  std::optional<Mismatch> mismatch_;
  bool asked_about_any_ = false;  // some stream has a question
  std::uint32_t open_operations_ = 0;
  std::uint32_t open_small_ = 0;  // of them, on the express stream
  EventQueue events_;
  Counters<WorkerCounter> counters_;
};

}  // namespace atp
