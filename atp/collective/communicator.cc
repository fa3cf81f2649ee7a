#include "atp/collective/communicator.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdio>
#include <deque>
#include <mutex>
#include <random>
#include <thread>
#include <utility>

#include "atp/collective/fragment_size.h"
#include "atp/collective/participant.h"
#include "atp/collective/text.h"
#include "atp/driver/udp/address.h"
#include "atp/driver/udp/event_loop.h"

namespace atp {
namespace {

using SteadyClock = std::chrono::steady_clock;

// How long a rank that goes in haste waits for the acknowledgement of its LEAVE. The others learn
// of it by the first one that arrives; the acknowledgement only ends the repeats.
constexpr std::chrono::milliseconds kHastyLeave{500};

constexpr const char* kForked =
    "this process was forked after the communicator was made and has no part in the job: make a "
    "communicator of its own";
constexpr const char* kShutDown = "the communicator was shut down";

// The communicator whose thread this is. (Thread ids are no answer: they are used again.)
thread_local const void* this_thread_drives = nullptr;

std::uint64_t random_word() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

void warn_on_stderr(const std::string& text) { std::fprintf(stderr, "atp: %s\n", text.c_str()); }

Status check(const CommunicatorOptions& options) {
  if (options.world_size < 1 || options.world_size > kMaxRanks) {
    return Error{"a job has 1 to " + with_commas(kMaxRanks) + " ranks, not " +
                 with_commas(options.world_size)};
  }
  if (options.rank >= options.world_size) {
    return Error{"rank " + std::to_string(options.rank) + " is none of the job's ranks 0 to " +
                 std::to_string(options.world_size - 1)};
  }
  if (options.route.empty() || options.route.size() > Route::kMaxHops) {
    return Error{"a route has the server and at most " + std::to_string(Route::kMaxHops - 1) +
                 " switches before it, not " + std::to_string(options.route.size()) + " hops"};
  }
  return ok_status();
}

WorkerConfig worker_config(const CommunicatorOptions& options, std::uint16_t value_count) {
  WorkerConfig config;
  config.job = options.job;
  config.rank = options.rank;
  config.world_size = static_cast<std::uint16_t>(options.world_size);
  config.nonce = random_word();
  config.max_value_count = value_count;
  config.scale_mode = options.scale_mode;
  config.overflow = options.overflow;
  config.join_timeout = options.join_timeout;
  config.seed = random_word();
  for (const Endpoint& hop : options.route) config.route.push_back(hop);
  return config;
}

FailureContext failure_context(const CommunicatorOptions& options) {
  return {.rank = options.rank,
          .world_size = options.world_size,
          .route = options.route,
          .join_timeout = options.join_timeout,
          .operation_timeout = options.operation_timeout};
}

}  // namespace

// Two sides share this object. The thread owns participant_ and the event loop. Callers and the
// thread meet in board_, under mutex_: operations and the wish to leave go in, phase, failure and
// counters come out, once each round of the loop.
class Communicator::Impl : public std::enable_shared_from_this<Communicator::Impl> {
 public:
  Impl(const CommunicatorOptions& options, std::uint16_t value_count, UdpSocket socket,
       std::unique_ptr<Waker> waker)
      : options_(options),
        socket_(std::move(socket)),
        waker_(std::move(waker)),
        participant_(worker_config(options, value_count), failure_context(options),
                     [this](const std::string& text) { warn(text); }) {}

  void start();
  Status wait_until_joined();

  std::shared_ptr<PendingOperation> submit(std::span<float> data, AllReduceOptions options);
  Status shutdown(std::chrono::milliseconds timeout);
  void abort(const std::string& why);

  const CommunicatorOptions& options() const { return options_; }
  std::size_t value_count();
  CounterList counters();
  void warn(const std::string& text) const {
    options_.on_warning ? options_.on_warning(text) : warn_on_stderr(text);
  }
  bool forked() const { return getpid() != owner_; }

 private:
  // What the two sides tell each other.
  struct Board {
    std::deque<std::shared_ptr<PendingOperation>> submitted;
    std::optional<std::string> leave;  // this rank goes; why operations in flight fail
    bool closed = false;               // takes no more operations
    std::uint64_t next_number = 0;
    std::size_t pending = 0;  // taken by the participant and not ended
    ParticipantPhase phase = ParticipantPhase::kJoining;
    std::uint16_t value_count = 0;
    std::optional<std::string> failure;
    bool ended = false;  // the thread is gone, or about to go
    Counters<WorkerCounter> worker_counters;
    UdpCounters udp_counters;
  };

  // What the event loop drives: the participant, and the board once a round.
  class Node {
   public:
    explicit Node(Impl& impl) : impl_(impl), participant_(impl.participant_) {}
    void handle_packet(Instant now, const Endpoint& from, std::span<const std::uint8_t> bytes,
                       Outbox& out) {
      participant_.handle_packet(now, from, bytes, out);
    }
    void handle_unreachable(Instant now, const Endpoint& whom, Outbox& out) {
      participant_.handle_unreachable(now, whom, out);
    }
    void handle_too_big(Instant now, const Endpoint& whom, std::size_t mtu) {
      participant_.handle_too_big(now, whom, mtu);
    }
    void handle_timeout(Instant now, Outbox& out) { participant_.handle_timeout(now, out); }
    void poll_transmit(Instant now, Outbox& out) { participant_.poll_transmit(now, out); }
    Instant next_timeout() const { return participant_.next_timeout(); }
    void on_round(Instant now) { impl_.on_round(now); }

   private:
    Impl& impl_;
    Participant& participant_;
  };

  void run();
  void on_round(Instant now);
  void take_commands(Instant now);
  void publish();
  void close(const std::string& why, SteadyClock::time_point until);
  bool on_own_thread() const { return this_thread_drives == this; }

  const CommunicatorOptions options_;
  const pid_t owner_ = getpid();
  UdpSocket socket_;
  std::unique_ptr<Waker> waker_;
  Participant participant_;
  EventLoop<Node>* loop_ = nullptr;  // lives in run()
  std::thread thread_;

  std::mutex mutex_;
  std::condition_variable changed_;
  Board board_;
};

void Communicator::Impl::start() {
  // Signals are the program's business, so none is ever delivered to this thread.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([self = shared_from_this()] { self->run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Communicator::Impl::run() {
  this_thread_drives = this;
  Node node(*this);
  EventLoop<Node> loop(socket_, node, *waker_);
  loop_ = &loop;
  participant_.start(clock_now());
  loop.run();
  loop_ = nullptr;
}

void Communicator::Impl::on_round(Instant now) {
  take_commands(now);
  participant_.on_round(now);
  publish();
}

void Communicator::Impl::take_commands(Instant now) {
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

void Communicator::Impl::publish() {
  const std::lock_guard lock(mutex_);
  const bool news =
      board_.phase != participant_.phase() || board_.pending != participant_.pending();
  board_.phase = participant_.phase();
  board_.pending = participant_.pending();
  board_.value_count = participant_.value_count();
  if (!board_.failure) board_.failure = participant_.failure();
  board_.worker_counters = participant_.counters();
  board_.udp_counters = loop_->counters();
  if (news) changed_.notify_all();
}

Status Communicator::Impl::wait_until_joined() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return board_.phase != ParticipantPhase::kJoining; });
  if (board_.phase == ParticipantPhase::kJoined) return ok_status();
  return Error{"rank " + std::to_string(options_.rank) +
               " cannot join the job: " + board_.failure.value_or("it was told to leave")};
}

std::shared_ptr<PendingOperation> Communicator::Impl::submit(std::span<float> data,
                                                             AllReduceOptions options) {
  if (options.timeout.count() == 0) options.timeout = options_.operation_timeout;
  std::unique_lock lock(mutex_);
  auto operation =
      std::make_shared<PendingOperation>(board_.next_number++, data, std::move(options));
  if (board_.closed) {
    const std::string why = board_.failure.value_or(kShutDown);
    lock.unlock();
    operation->finish(Error{operation_text(operation->number(), data.size()) + ": " + why});
    return operation;
  }
  const bool asleep = board_.submitted.empty();
  board_.submitted.push_back(operation);
  lock.unlock();
  if (asleep) waker_->wake();
  return operation;
}

// Leaves the job and ends the thread; whoever comes second waits until the first has done it.
void Communicator::Impl::close(const std::string& why, SteadyClock::time_point until) {
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

Status Communicator::Impl::shutdown(std::chrono::milliseconds timeout) {
  if (on_own_thread()) return Error{"shutdown() would wait for itself in a callback"};
  const auto until = SteadyClock::now() + timeout;
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

void Communicator::Impl::abort(const std::string& why) {
  close(why, SteadyClock::now() + kHastyLeave);
}

std::size_t Communicator::Impl::value_count() {
  const std::lock_guard lock(mutex_);
  return board_.value_count;
}

CounterList Communicator::Impl::counters() {
  CounterList list;
  const std::lock_guard lock(mutex_);
  const auto add = [&](std::string_view name, std::uint64_t value) {
    list.emplace_back(std::string(name), value);
  };
  board_.worker_counters.for_each(add);
  board_.udp_counters.for_each(add);
  return list;
}

Result<std::unique_ptr<Communicator>> Communicator::connect(const CommunicatorOptions& options) {
  const Status valid = check(options);
  if (!valid) return valid.error();
  const Result<std::uint16_t> value_count = choose_value_count(options);
  if (!value_count) return value_count.error();
  Result<UdpSocket> socket = UdpSocket::open(any_address_for(options.route));
  if (!socket) return socket.error();
  Result<std::unique_ptr<Waker>> waker = Waker::create();
  if (!waker) return waker.error();

  auto impl = std::make_shared<Impl>(options, value_count.value(), std::move(socket).value(),
                                     std::move(waker).value());
  impl->start();
  // From here on the destructor ends the thread.
  std::unique_ptr<Communicator> communicator(new Communicator(impl));
  const Status joined = impl->wait_until_joined();
  if (!joined) return joined.error();
  if (communicator->values_per_fragment() < options.values_per_fragment) {
    impl->warn("asked for " + with_commas(options.values_per_fragment) +
               " values a fragment, but a switch or another rank carries no more than " +
               with_commas(communicator->values_per_fragment()));
  }
  return communicator;
}

Communicator::Communicator(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

Communicator::~Communicator() {
  // In a forked child nothing may be joined, closed or freed. The thread that stayed behind in the
  // parent holds a reference to all of it, here too.
  if (!impl_->forked()) impl_->abort("the communicator was destroyed");
}

Rank Communicator::rank() const { return impl_->options().rank; }
std::size_t Communicator::world_size() const { return impl_->options().world_size; }
std::size_t Communicator::values_per_fragment() const { return impl_->value_count(); }

Handle Communicator::all_reduce(std::span<float> data, const AllReduceOptions& options) {
  Handle handle;
  if (impl_->forked()) {
    handle.operation_ = std::make_shared<PendingOperation>(0, data, options);
    handle.operation_->finish(Error{kForked});
  } else {
    handle.operation_ = impl_->submit(data, options);
  }
  return handle;
}

Status Communicator::shutdown(std::chrono::milliseconds timeout) {
  if (impl_->forked()) return Error{kForked};
  return impl_->shutdown(timeout);
}

void Communicator::abort(const std::string& why) {
  if (!impl_->forked()) impl_->abort(why);
}

CounterList Communicator::counters() const {
  return impl_->forked() ? CounterList{} : impl_->counters();
}

Status Handle::wait() {
  if (!operation_) return Error{"this handle belongs to no operation"};
  return operation_->wait();
}

bool Handle::done() const { return !operation_ || operation_->done(); }

}  // namespace atp
