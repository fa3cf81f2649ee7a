#include "atp/collective/lane.h"

#include <cstdio>
#include <random>
#include <utility>

#include "atp/collective/fragment_size.h"
#include "atp/collective/quiet_thread.h"
#include "atp/collective/text.h"
#include "atp/driver/udp/address.h"

namespace atp {
namespace {

using SteadyClock = std::chrono::steady_clock;

// How long a rank that goes in haste waits for the acknowledgement of its LEAVE. The others learn
// of it by the first one that arrives; the acknowledgement only ends the repeats.
constexpr std::chrono::milliseconds kHastyLeave{500};

constexpr const char* kShutDown = "the communicator was shut down";

// The lane whose thread this is. (Thread ids are no answer: they are used again.)
thread_local const void* this_thread_drives = nullptr;

void warn_on_stderr(const std::string& text) { std::fprintf(stderr, "atp: %s\n", text.c_str()); }

// One for the values, and an express one for exponents and small operations, unless the scale is
// fixed.
std::uint16_t streams_of_a_lane(NumberFormat format) {
  return format == NumberFormat::kFixed ? 1 : 2;
}

WorkerConfig worker_config(const LaneOptions& lane, std::uint16_t value_count) {
  const CommunicatorOptions& options = lane.communicator;
  WorkerConfig config;
  config.job = options.job;
  config.rank = options.rank;
  config.world_size = static_cast<std::uint16_t>(options.world_size);
  config.nonce = lane.nonce;
  config.stream_count = streams_of_a_lane(options.number_format);
  config.first_stream = static_cast<std::uint16_t>(config.stream_count * lane.shard);
  config.max_value_count = value_count;
  config.number_format = options.number_format;
  config.overflow = options.overflow;
  config.congestion = options.congestion;
  config.join_timeout = options.join_timeout;
  config.seed = std::random_device{}();
  for (const Endpoint& hop : options.route) config.route.push_back(hop);
  return config;
}

// With a server in each rank's process, the ways to them come in the order of the ranks.
std::optional<Rank> server_rank(const LaneOptions& lane) {
  const CommunicatorOptions& options = lane.communicator;
  const bool one_each = options.more_routes.size() + 1 == options.world_size;
  if (!options.own_server || !one_each) return std::nullopt;
  return static_cast<Rank>(lane.shard);
}

FailureContext failure_context(const LaneOptions& lane) {
  const CommunicatorOptions& options = lane.communicator;
  return {.rank = options.rank,
          .world_size = options.world_size,
          .route = options.route,
          .server_rank = server_rank(lane),
          .join_timeout = options.join_timeout,
          .operation_timeout = options.operation_timeout};
}

}  // namespace

Lane::Lane(const LaneOptions& options, std::uint16_t value_count, UdpSocket socket,
           std::unique_ptr<Waker> waker)
    : options_(options.communicator),
      socket_(std::move(socket)),
      closed_in_child_({socket_.fd()}),
      waker_(std::move(waker)),
      participant_(
          worker_config(options, value_count), failure_context(options),
          [this](const std::string& text) { warn(text); },
          [this](const std::string& why) { note_failure(why); }) {}

Result<std::shared_ptr<Lane>> Lane::open(const LaneOptions& options) {
  const CommunicatorOptions& communicator = options.communicator;
  const Result<std::uint16_t> value_count = choose_value_count(communicator);
  if (!value_count) return value_count.error();
  Result<UdpSocket> socket = UdpSocket::open(any_address_for(communicator.route));
  if (!socket) return socket.error();
  Result<std::unique_ptr<Waker>> waker = Waker::create();
  if (!waker) return waker.error();
  auto lane = std::make_shared<Lane>(options, value_count.value(), std::move(socket).value(),
                                     std::move(waker).value());
  lane->start();
  return lane;
}

void Lane::start() {
  thread_ = quiet_thread([self = shared_from_this()] { self->run(); });
}

void Lane::run() {
  this_thread_drives = this;
  Node node(*this);
  EventLoop<Node> loop(socket_, node, *waker_);
  loop_ = &loop;
  participant_.start(clock_now());
  loop.run();
  loop_ = nullptr;
}

void Lane::on_round(Instant now) {
  take_commands(now);
  publish();  // whoever is told that an operation has ended finds the counters as they were then
  participant_.on_round(now);
  publish();
}

void Lane::take_commands(Instant now) {
  std::deque<std::shared_ptr<PendingOperation>> submitted;
  std::optional<std::string> leave;
  {
    const std::lock_guard lock(mutex_);
    submitted.swap(board_.submitted);
    board_.pending += submitted.size();
    leave.swap(board_.leave);
  }
  for (auto& operation : submitted) participant_.submit(std::move(operation));
  if (leave) participant_.leave(now, *leave);
}

void Lane::publish() {
  const std::lock_guard lock(mutex_);
  const bool news =
      board_.phase != participant_.phase() || board_.pending != participant_.pending();
  board_.phase = participant_.phase();
  board_.pending = participant_.pending();
  board_.value_count = participant_.value_count();
  board_.worker_counters = participant_.counters();
  board_.udp_counters = loop_->counters();
  if (news) changed_.notify_all();
}

Status Lane::wait_until_joined() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return board_.phase != ParticipantPhase::kJoining; });
  if (board_.phase == ParticipantPhase::kJoined) return ok_status();
  return Error{"rank " + std::to_string(options_.rank) +
               " cannot join the job: " + board_.failure.value_or("it was told to leave")};
}

std::optional<std::string> Lane::submit(std::shared_ptr<PendingOperation> operation) {
  std::unique_lock lock(mutex_);
  if (board_.closed) return board_.failure.value_or(kShutDown);
  const bool asleep = board_.submitted.empty();
  board_.submitted.push_back(std::move(operation));
  lock.unlock();
  if (asleep) waker_->wake();
  return std::nullopt;
}

std::optional<std::string> Lane::failure() {
  const std::lock_guard lock(mutex_);
  return board_.failure;
}

void Lane::warn(const std::string& text) const {
  options_.on_warning ? options_.on_warning(text) : warn_on_stderr(text);
}

void Lane::note_failure(const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (!board_.failure) board_.failure = why;
}

bool Lane::on_own_thread() const { return this_thread_drives == this; }

// Leaves the job and ends the thread; whoever comes second waits until the first has done it.
void Lane::close(const std::string& why, SteadyClock::time_point until) {
  std::unique_lock lock(mutex_);
  if (board_.closed) {
    if (!on_own_thread()) changed_.wait(lock, [this] { return board_.ended; });
    return;
  }
  board_.closed = true;
  board_.leave = why;
  waker_->wake();
  if (on_own_thread()) {
    // A callback dropped the last reference: the thread ends after it, and frees this object.
    thread_.detach();
    waker_->stop();
    board_.ended = true;
    return;
  }
  changed_.wait_until(lock, until, [this] { return board_.phase == ParticipantPhase::kLeft; });
  lock.unlock();
  waker_->stop();
  thread_.join();
  lock.lock();
  board_.ended = true;
  changed_.notify_all();
}

Status Lane::shutdown(SteadyClock::time_point until, std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  if (!board_.closed) {
    const bool finished = changed_.wait_until(lock, until, [this] {
      return board_.closed || (board_.submitted.empty() && board_.pending == 0);
    });
    if (!finished) {
      const std::string why = "shut down after " + seconds_text(timeout) + " with " +
                              std::to_string(board_.pending + board_.submitted.size()) +
                              " operations in flight";
      lock.unlock();
      abort(why);
      return Error{why};
    }
  }
  const std::optional<std::string> failure = board_.failure;
  lock.unlock();
  const auto soon = SteadyClock::now() + kHastyLeave;
  close(kShutDown, failure ? soon : std::max(until, soon));
  if (failure && *failure != kShutDown) return Error{*failure};
  return ok_status();
}

void Lane::abort(const std::string& why) { close(why, SteadyClock::now() + kHastyLeave); }

void Lane::give_up(const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (board_.closed) return;
  if (!board_.failure) board_.failure = why;
  board_.leave = why;
  waker_->wake();
}

std::size_t Lane::value_count() {
  const std::lock_guard lock(mutex_);
  return board_.value_count;
}

CounterList Lane::counters() {
  CounterList list;
  const std::lock_guard lock(mutex_);
  const auto add = [&](std::string_view name, std::uint64_t value) {
    list.emplace_back(std::string(name), value);
  };
  board_.worker_counters.for_each(add);
  board_.udp_counters.for_each(add);
  return list;
}

}  // namespace atp
