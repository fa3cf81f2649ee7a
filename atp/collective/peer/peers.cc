// Checks and numbers the callers' requests, and runs the thread that drives the engine.
#include "atp/collective/peer/peers.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <utility>

#include "atp/collective/base/transport_thread.h"
#include "atp/collective/peer/engine.h"
#include "atp/driver/udp/running_clock.h"

namespace atp {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr const char* kPeersShutDown = "the group was shut down";

constexpr const char* kForked =
    "this process was forked after the group was created and has no part in it: create a new group";

// How long a leaving rank waits for the others to take its last bytes.
constexpr milliseconds kLastWords{500};

constexpr std::uint64_t kWaker = 0;

Status check(const PeerOptions& options, const std::vector<Endpoint>& addresses) {
  if (options.world_size > 0 && addresses.size() == options.world_size &&
      options.rank < options.world_size) {
    return ok_status();
  }
  return Error{"rank " + std::to_string(options.rank) + " of " +
               std::to_string(options.world_size) + " ranks with " +
               std::to_string(addresses.size()) + " addresses: expected an address for each rank"};
}

void record(const std::shared_ptr<RecordedGroup>& recorded, std::uint64_t number,
            CollectiveRequest& request) {
  const std::size_t size = bytes_of(request.kind);
  const bool transfers = is_transfer(request.call);
  const bool from_any = !transfers || request.root == kAnyRank;
  const auto token =
      recorded->begin({.name = to_string(request.call),
                       .path = "peers",
                       .type = to_string(request.kind),
                       .number = number,
                       .is_transfer = transfers,
                       .peer = from_any ? -1 : static_cast<std::int32_t>(request.root),
                       .tag = request.tag,
                       .timeout = request.timeout,
                       .input = RecordedShape::of_blocks(request.inputs, size),
                       .output = RecordedShape::of_blocks(request.outputs, size)});
  request.on_done = RecordedGroup::ending(recorded, token, std::move(request.on_done));
}

// For a group of one rank, whose operations end at once.
void carry_out_alone(PeerOperation& operation) {
  const CollectiveRequest& request = operation.request();
  SpareMemory spare;
  const PeerPlan plan = make_plan(request, 0, 1, spare);
  for (const PlannedValue& value : plan.values) {
    if (value.origin != PlannedValue::Origin::kCombined || value.bytes == 0) continue;
    std::vector<const std::byte*> operands;
    operands.reserve(value.operands.size());
    for (const std::uint32_t operand : value.operands) {
      operands.push_back(plan.values[operand].memory);
    }
    reduce_elements(request.kind, value.reduction, operands, 1, value.memory,
                    value.bytes / bytes_of(request.kind));
  }
  operation.finish(ok_status());
}

}  // namespace

// Its thread owns the engine. It and its callers exchange data through thread_.
class Peers::Impl : public std::enable_shared_from_this<Peers::Impl> {
 public:
  Impl(PeerOptions options, std::unique_ptr<Poller> poller, std::unique_ptr<PeerEngine> engine,
       std::unique_ptr<Waker> waker)
      : options_(std::move(options)),
        poller_(std::move(poller)),
        engine_(std::move(engine)),
        thread_(std::move(waker), kPeersShutDown) {
    if (options_.recorded != nullptr) {
      thread_.record_to(options_.recorded);
    } else {
      own_record_ = RecordedGroup::open("peers", options_.token, options_.rank, options_.world_size,
                                        options_.wording.ranks);
      thread_.record_to(own_record_);
    }
  }

  Status start();
  std::shared_ptr<PeerOperation> submit(CollectiveRequest request);
  std::uint64_t reserve(std::size_t count) {
    const std::lock_guard lock(order_mutex_);
    return std::exchange(next_number_, next_number_ + count);
  }
  void skip(std::uint64_t number) {
    const std::lock_guard lock(order_mutex_);
    skipped_.push_back(number);
  }
  bool wait_until_idle(steady_clock::time_point until) { return thread_.wait_until_idle(until); }
  Status shutdown(milliseconds timeout) {
    return thread_.shutdown(deadline_in(timeout), timeout, kLastWords);
  }
  void abort(const std::string& why) {
    thread_.on_own_thread() ? thread_.give_up(why) : close(why);
  }
  void give_up(const std::string& why) { thread_.give_up(why); }
  void stop(const std::string& why) { is_alone() ? thread_.give_up(why) : thread_.stop(why); }
  void close(const std::string& why) { thread_.close(why, steady_clock::now() + kLastWords); }
  PeerCounters counters() const { return thread_.report().counters; }
  std::optional<WaitedForRanks> waited_for() const { return thread_.report().waited_for; }
  std::map<Rank, Duration> waits() const { return thread_.report().waits; }
  std::optional<std::string> failure() const { return thread_.failure(); }
  FailureKind failure_kind() const { return thread_.failure_kind(); }
  bool on_own_thread() const { return thread_.on_own_thread(); }

  const PeerOptions& options() const { return options_; }
  bool forked() const { return getpid() != owner_; }

 private:
  std::vector<std::uint64_t> take_skipped() {
    const std::lock_guard lock(order_mutex_);
    return std::exchange(skipped_, {});
  }
  bool is_alone() const { return options_.world_size == 1; }
  void run();
  void say_last_words();
  template <class Step>
  void guarded(const Step& step) {
    thread_.guarded(options_.wording.rank(options_.rank), step,
                    [this](const std::string& why) { engine_->stop(why); });
  }
  bool publish(bool left) {  // true if there are new commands
    return thread_.publish(*engine_, left, options_.on_warning);
  }
  std::vector<Poller::Ready> wait_for_work();

  const PeerOptions options_;
  const pid_t owner_ = getpid();
  const std::unique_ptr<Poller> poller_;
  std::unique_ptr<PeerEngine> engine_;  // null: alone
  RunningClock clock_;                  // of its thread
  TransportThread<PeerOperation, ThreadReport<PeerCounters>> thread_;
  std::shared_ptr<RecordedGroup> own_record_;  // null: others record the operations
  std::mutex order_mutex_;                     // keeps numbers and submissions in the same order
  std::uint64_t next_number_ = 0;
  std::uint64_t next_transfer_ = 0;
  std::vector<std::uint64_t> skipped_;  // told to the engine with the next operation
};

Status Peers::Impl::start() {
  if (is_alone()) return ok_status();
  if (!poller_->add(thread_.waker().fd(), kWaker, EPOLLIN)) {
    return Error{std::string("cannot wait for a descriptor (epoll): ") + std::strerror(errno)};
  }
  return thread_.start("atp-peers", [self = shared_from_this()] { self->run(); });
}

void Peers::Impl::run() {
  std::vector<Poller::Ready> ready;
  for (;;) {
    auto commands = thread_.take();
    for (const std::uint64_t number : take_skipped()) engine_->skip(number);
    for (auto& operation : commands.submitted) {
      guarded([&] { engine_->submit(std::move(operation), clock_.now()); });
    }
    if (commands.stop) engine_->stop(*commands.stop);
    if (commands.leave) {
      engine_->leave(*commands.leave);
      break;
    }
    guarded([&] { engine_->work([this] { return clock_.now(); }, ready); });
    if (publish(false)) {
      ready.clear();
    } else {
      ready = wait_for_work();
    }
  }
  // Publish first: the farewells may take a moment, and callers' memory is no longer used.
  publish(false);
  say_last_words();
  publish(true);
  engine_.reset();  // closes the connections
}

void Peers::Impl::say_last_words() {
  const auto until = steady_clock::now() + kLastWords;
  while (!engine_->has_said_all() && steady_clock::now() < until) {
    engine_->work([this] { return clock_.now(); }, poller_->wait(1));
  }
}

std::vector<Poller::Ready> Peers::Impl::wait_for_work() {
  int timeout_ms = -1;
  if (const auto until = engine_->next_timeout()) {
    const auto now = clock_.now();
    const auto left = std::chrono::ceil<milliseconds>(clock_.sleep_until(*until) - now);
    timeout_ms = std::max(static_cast<int>(left.count()), 0);
  } else {
    clock_.sleep_forever();
  }
  engine_->count_wait();
  std::vector<Poller::Ready> ready = poller_->wait(timeout_ms);
  std::erase_if(ready, [this](const Poller::Ready& each) {
    if (each.id != kWaker) return false;
    thread_.waker().drain();
    return true;
  });
  return ready;
}

std::shared_ptr<PeerOperation> Peers::Impl::submit(CollectiveRequest request) {
  const Status valid = atp::check(request, options_.rank, options_.world_size);
  std::unique_lock lock(order_mutex_);
  const bool is_numbered = !is_transfer(request.call) && valid.ok();
  const std::uint64_t number = request.number.value_or(next_number_);
  if (is_numbered && !request.number) ++next_number_;
  if (own_record_ && valid) {
    record(own_record_, is_transfer(request.call) ? next_transfer_++ : number, request);
  }
  auto operation = std::make_shared<PeerOperation>(std::move(request), number, options_.wording);
  std::optional<std::string> refused;
  if (!valid) {
    refused = valid.error().message;
  } else {
    refused = is_alone() ? thread_.refusal() : thread_.submit(operation);
  }
  lock.unlock();
  // A callback may submit the next operation.
  if (refused) {
    operation->finish(Error{operation->text() + ": " + *refused});
  } else if (is_alone()) {
    carry_out_alone(*operation);
  }
  return operation;
}

Result<std::unique_ptr<Peers>> Peers::start(std::shared_ptr<const TcpListener> listener,
                                            const PeerOptions& options,
                                            std::vector<Endpoint> addresses) {
  const Status valid = check(options, addresses);
  if (!valid) return valid.error();
  std::unique_ptr<Poller> poller;
  std::unique_ptr<PeerEngine> engine;
  std::unique_ptr<Waker> waker;
  if (options.world_size > 1) {
    Result<Poller> made_poller = Poller::create();
    if (!made_poller) return made_poller.error();
    poller = std::make_unique<Poller>(std::move(made_poller).value());
    Result<std::unique_ptr<Waker>> made = Waker::create();
    if (!made) return made.error();
    waker = std::move(made).value();
    engine =
        std::make_unique<PeerEngine>(options, std::move(listener), std::move(addresses), *poller);
  }
  auto impl =
      std::make_shared<Impl>(options, std::move(poller), std::move(engine), std::move(waker));
  const Status started = impl->start();
  if (!started) return started.error();
  return std::unique_ptr<Peers>(new Peers(std::move(impl)));
}

Peers::Peers(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

// A forked child must not join, close or free anything: the thread exists only in the parent, but
// the reference that it holds exists here too.
Peers::~Peers() {
  if (!impl_->forked()) impl_->close("the group was destroyed");
}

std::size_t Peers::rank() const { return impl_->options().rank; }
std::size_t Peers::world_size() const { return impl_->options().world_size; }

PeerHandle Peers::submit(CollectiveRequest request) {
  if (impl_->forked()) {
    auto operation =
        std::make_shared<PeerOperation>(std::move(request), 0, impl_->options().wording);
    operation->finish(Error{operation->text() + ": " + kForked});
    return PeerHandle(std::move(operation));
  }
  return PeerHandle(impl_->submit(std::move(request)));
}

std::uint64_t Peers::reserve(std::size_t count) {
  return impl_->forked() ? 0 : impl_->reserve(count);
}

void Peers::skip(std::uint64_t number) {
  if (!impl_->forked()) impl_->skip(number);
}

bool Peers::wait_until_idle(steady_clock::time_point until) {
  return impl_->forked() || impl_->wait_until_idle(until);
}

Status Peers::shutdown(milliseconds timeout) {
  return impl_->forked() ? Error{kForked} : impl_->shutdown(timeout);
}

void Peers::abort(const std::string& why) {
  if (!impl_->forked()) impl_->abort(why);
}

void Peers::give_up(const std::string& why) {
  if (!impl_->forked()) impl_->give_up(why);
}

void Peers::stop(const std::string& why) {
  if (!impl_->forked()) impl_->stop(why);
}

std::optional<std::string> Peers::failure() const {
  return impl_->forked() ? std::optional<std::string>(kForked) : impl_->failure();
}

FailureKind Peers::failure_kind() const {
  return impl_->forked() ? FailureKind::kNone : impl_->failure_kind();
}

bool Peers::on_own_thread() const { return !impl_->forked() && impl_->on_own_thread(); }

std::optional<WaitedForRanks> Peers::waited_for() const {
  return impl_->forked() ? std::nullopt : impl_->waited_for();
}

std::map<Rank, Duration> Peers::waits() const {
  return impl_->forked() ? std::map<Rank, Duration>() : impl_->waits();
}

PeerCounterList Peers::counters() const {
  PeerCounterList list;
  if (impl_->forked()) return list;
  impl_->counters().for_each([&](std::string_view name, std::uint64_t value) {
    list.emplace_back(std::string(name), value);
  });
  return list;
}

PeerHandle::PeerHandle(std::shared_ptr<PeerOperation> operation)
    : operation_(std::move(operation)) {}

Status PeerHandle::wait() const { return operation_->wait(); }
bool PeerHandle::wait_or_interrupted() const { return operation_->wait_or_interrupted(); }
Status PeerHandle::wait_or_interrupted(const MaybeInterruption& interruption) const {
  if (operation_->wait_or_interrupted(interruption)) return operation_->wait();
  return Error{*why_interrupted(interruption)};
}
bool PeerHandle::done() const { return operation_->done(); }
std::size_t PeerHandle::source() const { return operation_->source(); }

}  // namespace atp
