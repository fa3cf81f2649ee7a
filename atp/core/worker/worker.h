#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "atp/base/random.h"
#include "atp/core/outbox.h"
#include "atp/core/worker/attachment.h"
#include "atp/core/worker/congestion_window.h"
#include "atp/core/worker/counters.h"
#include "atp/core/worker/event_queue.h"
#include "atp/core/worker/join_schedule.h"
#include "atp/core/worker/rtt_estimator.h"
#include "atp/core/worker/scale_history.h"
#include "atp/core/worker/stream.h"
#include "atp/core/worker/worker_api.h"
#include "atp/wire/fixed_point.h"

// One socket of a worker: it joins a job, splits tensors into fragments, sends them to its tree in
// sequence order, repeats what stays unanswered, and writes the sums that come back
// (docs/protocol.md §2 and §5). Four source files, one for each verb: worker.cc (application),
// worker_join.cc (membership and detaching), worker_send.cc (transmissions and repeats),
// worker_receive.cc.
//
// Time moves only by the `now` that callers pass in. Any single loss is repaired without the
// application noticing; every operation ends with kCompleted or, in bounded time, with kFailed.
// After a failure the sequence spaces of the workers no longer agree, so the job is over: all
// pending operations fail with the same cause, and submit() refuses further ones.
//
// Invariants: an answered fragment is never read from its tensor again; a fragment is answered by
// exactly one PARAMETER of its whole identity; sequences are never reused.

namespace atp {

class Worker {
 public:
  explicit Worker(const WorkerConfig& config);

  // Begins to join; kJoined follows, or kFailed within the join time-out.
  void start(Instant now);

  // Queues an all-reduce over the tensor that Tensors shows under the returned id. Nothing if the
  // worker has not joined, is no longer usable, or there is no room: max_operations are open, or
  // were submitted to one stream since its oldest that is not answered.
  std::optional<OperationId> submit(Instant now, const OperationSpec& spec);

  // Fails what is pending and sends LEAVE until it is acknowledged, at most for a lease: kLeft.
  void leave(Instant now);

  void handle_packet(Instant now, const Endpoint& from, std::span<const std::uint8_t> bytes,
                     Tensors& tensors, Outbox& out);
  void handle_unreachable(Instant now, const Endpoint& whom, Tensors& tensors, Outbox& out);
  void handle_timeout(Instant now, Tensors& tensors, Outbox& out);
  void poll_transmit(Instant now, Tensors& tensors, Outbox& out);
  Instant next_timeout() const;
  std::optional<Event> poll_event();

  const Counters<WorkerCounter>& counters() const { return counters_; }
  std::uint16_t value_count() const { return agreed_.value_count; }
  bool joined() const { return state_ == State::kJoined; }
  bool attached() const { return attachment_.attached(); }
  // The server's, once all have agreed on it; until then the configuration's.
  Duration lease() const {
    return is_member() ? std::chrono::milliseconds(agreed_.lease_ms) : config_.timing.lease;
  }

  bool operator==(const Worker&) const = default;

 private:
  enum class State : std::uint8_t { kIdle, kJoining, kJoined, kFailed, kLeaving, kLeft };
  enum class Path : std::uint8_t { kTree, kStraight };

  // worker.cc
  void complete(Stream& stream, Operation& operation);
  void fail(const Failure& failure);
  bool has_pending() const;
  void check_deadlines(Instant now);
  Stream* stream_of(std::uint16_t id);

  // worker_join.cc
  bool is_member() const { return !streams_.empty(); }  // it has agreed, whatever came then
  bool has_switch() const { return config_.route.size() > 1; }
  const Endpoint& parent() const { return config_.route.front(); }
  const Endpoint& server() const { return config_.route.back(); }
  void send_join(Instant now, Path path, Outbox& out);
  void send_leave(Instant now, Outbox& out);
  void handle_join_ack(Instant now, Path path, const PacketView& packet);
  void take_agreement(Instant now, const JoinAck& ack);
  void rejoin(Instant now);
  void detach(Instant now);
  void attach(Instant now);
  void resend_everything();
  void check_membership(Instant now, Outbox& out);
  void check_silence(Instant now);
  Instant tree_lease_end() const;

  // worker_send.cc
  // The flags that it was sent with; nothing if the outbox was full.
  std::optional<std::uint8_t> put_gradient(Stream& stream, std::uint64_t sequence,
                                           std::uint8_t flags, const Endpoint& to, Tensors& tensors,
                                           Outbox& out);
  bool keeps_from_switches(const Quantized& quantized) const;
  // Whether the operation of the next first transmission has its scale.
  bool settle_next(Instant now, Stream& stream);
  void send_new(Instant now, Stream& stream, Tensors& tensors, Outbox& out);
  // One step up the ladder; `least` skips the lower rungs. False if the outbox was full.
  bool repeat(Instant now, Stream& stream, std::uint64_t sequence, std::uint8_t least, bool timer,
              Tensors& tensors, Outbox& out);
  void repeat_paced(Instant now, Stream& stream, Tensors& tensors, Outbox& out);
  void handle_stream_timer(Instant now, Stream& stream, Tensors& tensors, Outbox& out);
  void arm_timer(Instant now, Stream& stream);

  // worker_receive.cc
  void handle_parameter(Instant now, const PacketView& packet, Tensors& tensors, Outbox& out);
  void accept_parameter(Instant now, Stream& stream, const PacketView& packet, Tensors& tensors);
  double magnitude_of(const Operation& operation, const PacketView& packet) const;
  void write_values(const Operation& operation, const PacketView& packet, Tensors& tensors);
  void take_loss();
  void await_followers(Instant now, Stream& stream, const SentFragment& answered);
  Duration reordering_tolerance() const;
  void infer_loss(Instant now, Stream& stream, Tensors& tensors, Outbox& out);
  bool hasten(Instant now, Stream& stream, std::uint64_t sequence, Tensors& tensors, Outbox& out);
  void note_asked(const PacketView& packet);
  void handle_nack(Instant now, const PacketView& packet, Tensors& tensors, Outbox& out);
  void handle_status(Instant now, Path path, const PacketView& packet);
  void handle_mismatch(const PacketView& packet, const StatusMessage& status);
  bool is_meant(const StatusMessage& status);
  void handle_answer_to_join(Instant now, Path path, const StatusMessage& status);
  // The in-flight fragment that a packet is about; its drop counter otherwise.
  Stream* find_in_flight(const PacketView& packet);

  WorkerConfig config_;
  Random random_;
  State state_ = State::kIdle;
  Attachment attachment_;
  JoinSchedule tree_join_;
  JoinSchedule straight_join_;
  JoinSchedule leave_;
  Instant started_{};
  Instant left_by_ = kNever;  // LEAVE is given up
  Instant server_heard_{};
  Instant tree_heard_ = kNever;  // kNever: not yet
  bool server_unreachable_ = false;
  bool resend_after_join_ = false;
  RankSet missing_;  // as the server last said
  Failure failure_;  // why the worker is kFailed

  JoinAck agreed_;
  ScaleHistory scales_;  // of an automatic scale
  std::vector<Stream> streams_;
  CongestionWindow congestion_;
  RttEstimator rtt_;
  std::uint64_t in_flight_bytes_ = 0;
  bool held_back_ = false;       // the congestion window held packets back when last asked
  std::size_t next_stream_ = 0;  // whose turn it is to send first

  OperationId next_operation_ = 0;
  std::uint32_t open_operations_ = 0;
  EventQueue events_;
  Counters<WorkerCounter> counters_;
};

}  // namespace atp
