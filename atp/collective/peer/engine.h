#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "atp/base/counters.h"
#include "atp/base/failure_kind.h"
#include "atp/collective/base/completion.h"
#include "atp/collective/peer/connection.h"
#include "atp/collective/peer/links.h"
#include "atp/collective/peer/plan.h"
#include "atp/collective/waits/late_ranks.h"
#include "atp/collective/waits/read_clock.h"

// Carries out the operations of one rank over its connections. One thread drives it; it never
// waits.
//
// Messages find their values by keys that both sides know: for a collective, its number and the
// part of it; for a transfer, the number that its sender gave it, once a receive with its tag has
// matched it. So operations may overlap freely.
//
// When something breaks, every rank should name the same culprit. A rank whose connection ends
// without a farewell is dead. The rank that sees this tells all others: at once if it needs that
// rank, and otherwise once it has had a moment to complete what it can. Before an operation's time
// is up, its rank asks those that it waits for how far they have got; they ask those that they
// wait for, and so on. A rank that waits for one that does not answer, or has not called the
// operation, names it to all.

namespace atp {

class PeerOperation {
 public:
  PeerOperation(CollectiveRequest request, std::uint64_t number, Wording wording)
      : request_(std::move(request)),
        number_(number),
        wording_(std::move(wording)),
        completion_(std::exchange(request_.on_done, nullptr)) {}

  const CollectiveRequest& request() const { return request_; }
  std::uint64_t number() const { return number_; }
  // When its first step was started, by the clock of its thread.
  SteadyTime begun() const { return begun_; }
  void set_begun(SteadyTime now) { begun_ = now; }
  // How it describes itself to other ranks.
  Frame frame() const;
  std::string text() const { return describe(frame(), wording_); }
  // For a receive that has ended: the sender.
  std::size_t source() const { return source_; }
  void set_source(std::size_t rank) { source_ = rank; }

  void finish(Status result) { completion_.finish(std::move(result)); }
  Status wait() { return completion_.wait(); }
  bool wait_or_interrupted(const MaybeInterruption& interruption = nullptr) {
    return completion_.wait_or_interrupted(interruption);
  }
  bool done() const { return completion_.done(); }

 private:
  CollectiveRequest
      request_;  // its callback is released after the call: it may own the handle's owner
  const std::uint64_t number_;
  const Wording wording_;
  SteadyTime begun_{};
  std::size_t source_ = kAnyRank;
  Completion completion_;
};

enum class PeerCounter : std::uint8_t {
  kBytesSent,
  kBytesReceived,
  kRingBytesSent,  // values of sums by the rule of numbers, and of what goes around_ring
  kRingBytesReceived,
  kSendCalls,
  kReceiveCalls,
  kWaits,
  kConnections,
  kOperationsCompleted,
  kOperationsFailed,
  kCount,
};

constexpr std::string_view to_string(PeerCounter counter) {
  switch (counter) {
    case PeerCounter::kBytesSent: return "peer_bytes_sent";
    case PeerCounter::kBytesReceived: return "peer_bytes_received";
    case PeerCounter::kRingBytesSent: return "ring_bytes_sent";
    case PeerCounter::kRingBytesReceived: return "ring_bytes_received";
    case PeerCounter::kSendCalls: return "peer_send_calls";
    case PeerCounter::kReceiveCalls: return "peer_receive_calls";
    case PeerCounter::kWaits: return "peer_waits";
    case PeerCounter::kConnections: return "peer_connections";
    case PeerCounter::kOperationsCompleted: return "peer_operations_completed";
    case PeerCounter::kOperationsFailed: return "peer_operations_failed";
    case PeerCounter::kCount: break;
  }
  return "unknown";
}

using PeerCounters = Counters<PeerCounter>;

class PeerEngine {
 public:
  // The poller's id of an open connection: this number plus the rank.
  static constexpr std::uint64_t kConnections = std::uint64_t{3} << 32;

  PeerEngine(const PeerOptions& options, std::shared_ptr<const TcpListener> listener,
             std::vector<Endpoint> addresses, Poller& poller);
  ~PeerEngine();

  // A connection with this rank that was made elsewhere.
  void connect(std::size_t rank, TcpSocket socket) { links_.open(rank, std::move(socket)); }
  void submit(std::shared_ptr<PeerOperation> operation, SteadyTime now);
  // No rank will submit a collective with this number.
  void skip(std::uint64_t number);
  void work(const ReadClock& clock, const std::vector<Poller::Ready>& ready);
  std::vector<EndedOperation<PeerOperation>> take_ended() { return std::exchange(ended_, {}); }
  // Fails for a reason from outside, and tells the others this reason.
  void stop(const std::string& why) { fail(why, FailureKind::kNone); }
  // Tells the others that this rank leaves; operations in flight fail.
  void leave(const std::string& why);
  // Whether the peers' kernels have everything that was sent, as far as this kernel knows.
  bool has_said_all();

  std::optional<SteadyTime> next_timeout() const;
  const std::optional<std::string>& failure() const { return failure_; }
  FailureKind failure_kind() const { return failure_kind_; }
  std::size_t pending() const { return tasks_.size() + waiting_.size(); }
  PeerCounters counters() const;
  void count_wait() { counters_.add(PeerCounter::kWaits); }
  // The ranks that hold up the oldest operations.
  const LateRanks& late() const { return late_; }
  std::optional<LateRanks::Line> take_line() { return late_.take_line(); }
  std::optional<WaitedForRanks> waited_for() const;

 private:
  // Collectives are numbered by the group, transfers by this rank.
  struct TaskKey {
    bool is_transfer = false;
    std::uint64_t number = 0;
    auto operator<=>(const TaskKey&) const = default;
  };
  // A value of a plan, and how much of it is there.
  struct Value {
    std::size_t filled = 0;
    bool complete = false;
    std::vector<std::uint32_t> used_by;  // values
  };
  struct Send {
    std::size_t sent = 0;
    bool permitted = false;
    bool done = false;
  };
  // A rank that holds up an operation, as rank `via` has said, which may be this one.
  struct Late {
    Frame::Delay delay = Frame::Delay::kNobody;
    std::size_t via = 0;
    SteadyTime heard_at{};
  };
  struct Task {
    TaskKey key;
    std::shared_ptr<PeerOperation> operation;
    Frame frame;                         // the common part of its messages
    std::unique_ptr<PlanStages> stages;  // null: none follows the plan
    PeerPlan plan;                       // of all stages so far
    std::vector<Value> values;
    std::vector<Send> sends;
    std::size_t left = 0;        // values and sends, and one while stages may follow
    std::size_t incomplete = 0;  // values
    SteadyTime deadline{};
    SteadyTime ask_at{};
    std::optional<SteadyTime> asked_at;
    std::set<std::size_t> not_called;  // ranks that have reported that they have not called it
    // By rank of a transfer: the answer that it waits for another rank.
    std::map<std::size_t, Frame> waits;
    // Ranks whose transfers wait for this rank because of this task, with the answers that they
    // got.
    std::map<std::size_t, Frame> askers;
    SteadyTime look_at{};                   // its place in the agenda
    SteadyTime moved_at{};                  // its last progress
    std::optional<SteadyTime> wondered_at;  // since then
    bool is_judged = false;                 // whether those that did not answer are known
    std::map<std::size_t, Late> late;       // the ranks that hold it up
    // Ranks that wonder, with the number of the operation in which they wait.
    std::map<std::size_t, std::uint64_t> wonderers;
  };
  struct MessageKey {
    bool is_transfer = false;
    std::uint64_t number = 0;
    std::uint32_t part = 0;
    auto operator<=>(const MessageKey&) const = default;
  };
  // A message that a rank sends or has announced, or that a task waits for.
  struct Arrival {
    Frame frame;  // as announced; before that, as expected
    Task* task = nullptr;
    std::uint32_t value = 0;
    std::vector<std::byte> buffer;  // for a message that no task had asked for
    std::size_t taken = 0;          // bytes in it
    bool is_buffered = false;
    bool is_whole = false;  // in the buffer
    bool is_offered = false;
    bool was_called = false;  // kReady was sent
  };
  struct Outgoing {
    Task* task;
    std::uint32_t send;
  };
  struct Peer {
    std::unique_ptr<PeerConnection> connection;
    bool waits_for_room = false;  // as set in the poller
    bool left = false;            // has sent a farewell
    bool ended = false;           // its connection has ended or was refused
    std::vector<Frame> early;     // to post once there is a connection
    std::deque<Outgoing> outgoing;
    std::set<MessageKey> early_ready;
    std::map<MessageKey, Arrival> arrivals;
    std::uint64_t transfers_begun = 0;
    std::map<std::uint64_t, Task*> transfers;  // sends
    std::size_t waiting_bytes = 0;             // sent at once, not known to be taken yet
    std::size_t credit = 0;                    // taken, but not reported to the sender yet
    SteadyTime heard_at{};
    SteadyTime wondered_at{};           // the first question since it was heard
    std::optional<SteadyTime> call_at;  // when to call it, to see whether it is alive
  };
  struct Suspicion {
    std::string text;
    SteadyTime until;
  };
  class PeerSink;
  friend class PeerSink;

  // Operations, in operations.cc.
  void begin_waiting();
  void begin(std::shared_ptr<PeerOperation> operation);
  void begin_stage(Task& task);
  bool begin_due_stages();
  void begin_values(Task& task, PeerPlan plan);
  void begin_send(Task& task, std::uint32_t index);
  void begin_receive(Task& task, std::uint32_t index);
  void begin_transfer_in(Task& task);
  void await(std::size_t rank);
  void note_called(std::uint64_t number);
  bool is_called(std::uint64_t number) const;
  bool has_ended(std::uint64_t number) const;
  void check_nothing_left(const Task& task);
  void fill(Task& task, std::uint32_t value, std::size_t filled);
  void combine(Task& task, std::uint32_t value);
  void end_part(Task& task);
  void end(Task& task);
  Peer& reach(std::size_t rank);

  // Messages, in messages.cc.
  void permit(Task& task, std::uint32_t index);
  std::optional<PeerConnection::Piece> next_piece(std::size_t rank);
  void sent(std::size_t rank, const PeerConnection::Piece& piece);
  void post(std::size_t rank, const Frame& frame);
  void say_ready(std::size_t rank, Arrival& arrival);
  void bind(std::size_t rank, const MessageKey& key, Arrival& arrival, Task& task,
            std::uint32_t value);
  // Fails because another rank has called something else.
  void fail_unlike(std::size_t rank, const Frame& theirs, const std::string& own);
  // A message for which this rank has no operation.
  void refuse_message(std::size_t rank, const Frame& frame, const std::string& own);
  bool match_transfer(std::size_t rank, const MessageKey& key, Arrival& arrival);
  Arrival* arrival_of(std::size_t rank, const Frame& frame);
  void hear_offer(std::size_t rank, const Frame& frame);
  void hear_ready(std::size_t rank, const Frame& frame);
  void take_whole(std::size_t rank, const MessageKey& key, Arrival& arrival);
  // Where the next bytes of a message go.
  static PeerConnection::Place place_of(const Arrival& arrival);
  PeerConnection::Place take_bytes(std::size_t rank, const Frame& frame, std::size_t bytes);
  void give_credit(std::size_t rank, std::size_t bytes);
  bool check_match(std::size_t rank, const Frame& theirs, const Task& task, std::size_t bytes,
                   std::uint32_t part);
  // `mine`: the frame that this rank's call would have sent or awaited instead.
  void fail_mismatch(std::size_t rank, const Frame& theirs, const Task& task, const Frame& mine);

  // Connections, in engine.cc.
  void read_clock();
  void adopt_connections();
  void receive_from(std::size_t rank);
  void send_to(std::size_t rank);
  void send_all();
  void hear(std::size_t rank, const Frame& frame, const std::string& text);
  void close_connection(std::size_t rank, PeerConnection::End end);

  // Which rank counts as dead, and when; in watch.cc.
  void check_time();
  void check_tasks();
  void check_waiting();
  SteadyTime next_look(const Task& task) const;
  void enter(Task& task);  // in the agenda
  void ask(Task& task);
  void hear_question(std::size_t rank, const Frame& frame);
  void tell_what_it_waits_for(std::size_t asker, Frame answer);
  void hear_answer(std::size_t rank, const Frame& frame);
  std::string wait_text(const Task& task) const;
  void judge(Task& task);
  std::vector<std::size_t> awaited(const Task& task) const;
  bool needs(std::size_t rank) const;
  bool is_there(std::size_t rank) const { return !peers_[rank].left && !peers_[rank].ended; }
  void note_gone(std::size_t rank);
  void miss(std::size_t rank);
  void suspect(const std::string& text);
  void fail(const std::string& why, FailureKind kind = FailureKind::kBroken);
  void fail_late(const std::string& why) { fail(why, FailureKind::kTimeout); }
  void refuse(std::shared_ptr<PeerOperation> operation);
  std::chrono::milliseconds patience(const PeerOperation& operation) const;
  SteadyTime must_begin_by(const PeerOperation& operation) const;
  std::string own_name() const { return options_.wording.rank(options_.rank); }
  std::string name(std::size_t rank) const { return links_.name(rank); }

  // For whom this rank waits; in late.cc.
  void note_moved(Task& task, std::size_t rank);
  SteadyTime next_wonder(const Task& task) const;
  void wonder(Task& task);
  void note_silent(Task& task);
  void note_late(Task& task, std::size_t rank, const Late& late);
  void hear_wonder(std::size_t rank, const Frame& frame);
  void say_late(std::size_t rank, std::uint64_t number, std::size_t late, Frame::Delay delay);
  void hear_late(std::size_t rank, const Frame& frame);
  void report_late();
  std::string why_late(const Task& task, std::size_t rank, Frame::Delay delay) const;
  Rank number_of(std::size_t rank) const;

  const PeerOptions options_;
  Poller& poller_;
  PeerLinks links_;
  std::vector<Peer> peers_;                                          // by rank
  std::map<std::uint64_t, std::shared_ptr<PeerOperation>> waiting_;  // collectives, by number
  std::set<std::uint64_t> called_;  // numbers from first_uncalled_ on
  std::uint64_t first_uncalled_ = 0;
  std::map<TaskKey, std::unique_ptr<Task>> tasks_;
  std::vector<std::unique_ptr<Task>> failed_;  // until the end of the round
  // When to look after which task, and by when which waiting operation must have begun.
  std::set<std::pair<SteadyTime, TaskKey>> agenda_;
  std::set<std::pair<SteadyTime, std::uint64_t>> must_begin_by_;
  std::set<TaskKey> held_up_;  // tasks that have late ranks
  LateRanks late_;
  SpareMemory spare_;
  std::vector<TaskKey> due_;     // tasks whose next stage can begin
  std::size_t collectives_ = 0;  // among the tasks
  // Until it is in one of these: there may be no memory for that, and no operation may get lost.
  std::shared_ptr<PeerOperation> coming_;
  std::uint64_t next_transfer_ = 0;
  std::list<Task*> receives_;                                // not matched, in their order
  std::list<std::pair<std::size_t, MessageKey>> unclaimed_;  // transfers without a receive
  std::vector<EndedOperation<PeerOperation>> ended_;
  PeerCounters counters_;
  SteadyTime now_;
  ReadClock clock_;  // in work()
  std::optional<Suspicion> suspicion_;
  std::string first_to_end_;  // which rank has ended first without a farewell
  bool has_left_ = false;
  std::optional<std::string> failure_;
  FailureKind failure_kind_ = FailureKind::kNone;
};

}  // namespace atp
