// Checks and numbers the callers' requests, and runs the thread that drives the engine.
#include "atp/collective/ring/ring.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <utility>

#include "atp/collective/base/transport_thread.h"
#include "atp/collective/ring/engine.h"
#include "atp/driver/udp/running_clock.h"

namespace atp {
namespace {

using std::chrono::steady_clock;

constexpr const char* kRingShutDown = "the ring was shut down";

constexpr const char* kForked =
    "this process was forked after the ring was created and has no part in it: create a new ring";

Status check(const RingOptions& options, const std::vector<Endpoint>& addresses) {
  if (options.world_size > 0 && addresses.size() == options.world_size &&
      options.rank < options.world_size) {
    return ok_status();
  }
  return Error{"rank " + std::to_string(options.rank) + " of " +
               std::to_string(options.world_size) + " ranks with " +
               std::to_string(addresses.size()) + " addresses: expected an address for each rank"};
}

void record(const std::shared_ptr<RecordedGroup>& recorded, std::uint64_t number,
            RingRequest& request) {
  const std::size_t size = bytes_of(request.type);
  const auto token = recorded->begin({.name = to_string(request.collective),
                                      .path = "ring",
                                      .type = to_string(request.type),
                                      .number = number,
                                      .timeout = request.timeout,
                                      .input = RecordedShape::of_blocks(request.inputs, size),
                                      .output = RecordedShape::of_blocks(request.outputs, size)});
  request.on_done = RecordedGroup::ending(recorded, token, std::move(request.on_done));
}

// For a ring of one rank, whose operations end at once.
void carry_out_alone(RingOperation& operation) {
  make_schedule(operation.request(), 0, 1, {});
  operation.finish(ok_status());
}

}  // namespace

// Its thread owns the engine. It and its callers exchange data through thread_.
class Ring::Impl : public std::enable_shared_from_this<Ring::Impl> {
 public:
  Impl(RingOptions options, std::unique_ptr<RingEngine> engine, std::unique_ptr<Waker> waker)
      : options_(std::move(options)),
        engine_(std::move(engine)),
        thread_(std::move(waker), kRingShutDown) {
    if (options_.recorded != nullptr) {
      thread_.record_to(options_.recorded);
    } else {
      own_record_ = RecordedGroup::open("ring", options_.token, options_.rank, options_.world_size,
                                        options_.names);
      thread_.record_to(own_record_);
    }
  }

  Status start();
  std::shared_ptr<RingOperation> submit(RingRequest request);
  Status shutdown(std::chrono::milliseconds timeout) {
    return thread_.shutdown(deadline_in(timeout), timeout, kHaste);
  }
  void abort(const std::string& why) {
    thread_.on_own_thread() ? thread_.give_up(why) : close(why);
  }
  void give_up(const std::string& why) { thread_.give_up(why); }
  void stop(const std::string& why) { is_alone() ? thread_.give_up(why) : thread_.stop(why); }
  void close(const std::string& why) { thread_.close(why, steady_clock::now() + kHaste); }
  RingCounters counters() const { return thread_.report().counters; }
  std::optional<WaitedForRanks> waited_for() const { return thread_.report().waited_for; }
  std::map<Rank, Duration> waits() const { return thread_.report().waits; }
  std::optional<std::string> failure() const { return thread_.failure(); }
  FailureKind failure_kind() const { return thread_.failure_kind(); }
  bool wait_until_idle(steady_clock::time_point until) { return thread_.wait_until_idle(until); }
  bool on_own_thread() const { return thread_.on_own_thread(); }

  const RingOptions& options() const { return options_; }
  bool forked() const { return getpid() != owner_; }

 private:
  // Do not wait until there is room for farewells in the sockets' buffers.
  static constexpr std::chrono::milliseconds kHaste{0};

  bool is_alone() const { return options_.world_size == 1; }
  void run();
  template <class Step>
  void guarded(const Step& step) {
    thread_.guarded(rank_name(options_, options_.rank), step,
                    [this](const std::string& why) { engine_->stop(why); });
  }
  bool publish(bool left) {  // true if there are new commands
    return thread_.publish(*engine_, left, options_.on_warning);
  }
  std::array<pollfd, 4> wait_for_work();

  const RingOptions options_;
  const pid_t owner_ = getpid();
  std::unique_ptr<RingEngine> engine_;  // null: alone
  RunningClock clock_;                  // of its thread
  TransportThread<RingOperation, ThreadReport<RingCounters>> thread_;
  std::shared_ptr<RecordedGroup> own_record_;  // null: others record the operations
  std::mutex order_mutex_;                     // keeps numbers and submissions in the same order
  std::uint64_t next_number_ = 0;
};

Status Ring::Impl::start() {
  if (is_alone()) return ok_status();
  Status started = thread_.start("atp-ring", [self = shared_from_this()] { self->run(); });
  // Otherwise the neighbours would take this rank for dead when its connections end.
  if (!started) engine_->leave(started.error().message);
  return started;
}

void Ring::Impl::run() {
  std::array<pollfd, 4> ready{};
  for (;;) {
    auto commands = thread_.take();
    for (auto& operation : commands.submitted) {
      guarded([&] { engine_->submit(std::move(operation), clock_.now()); });
    }
    if (commands.stop) engine_->stop(*commands.stop);
    if (commands.leave) {
      engine_->leave(*commands.leave);
      break;
    }
    guarded([&] { engine_->work([this] { return clock_.now(); }, ready); });
    if (!publish(false)) ready = wait_for_work();
  }
  publish(true);
  engine_.reset();  // closes the connections
}

std::array<pollfd, 4> Ring::Impl::wait_for_work() {
  const auto interests = engine_->interests();
  std::array<pollfd, 5> waited{pollfd{thread_.waker().fd(), POLLIN, 0}};
  std::copy(interests.begin(), interests.end(), waited.begin() + 1);
  int timeout_ms = -1;
  if (const auto until = engine_->next_timeout()) {
    const auto now = clock_.now();
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(clock_.sleep_until(*until) - now);
    timeout_ms = std::max(static_cast<int>(left.count()), 0);
  } else {
    clock_.sleep_forever();
  }
  engine_->count_wait();
  poll(waited.data(), waited.size(), timeout_ms);
  if (waited[0].revents != 0) thread_.waker().drain();
  return {waited[1], waited[2], waited[3], waited[4]};
}

std::shared_ptr<RingOperation> Ring::Impl::submit(RingRequest request) {
  const Status valid = check(request, options_.rank, options_.world_size);
  std::unique_lock lock(order_mutex_);
  if (own_record_ && valid) record(own_record_, next_number_, request);
  auto operation = std::make_shared<RingOperation>(std::move(request), next_number_);
  std::optional<std::string> refused;
  if (!valid) {
    refused = valid.error().message;
  } else {
    ++next_number_;
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

Result<std::unique_ptr<Ring>> Ring::connect(const TcpListener& listener, const RingOptions& options,
                                            const std::vector<Endpoint>& addresses) {
  const Status valid = check(options, addresses);
  if (!valid) return valid.error();
  std::unique_ptr<RingEngine> engine;
  std::unique_ptr<Waker> waker;
  if (options.world_size > 1) {
    Result<Links> links = connect_links(listener, options, addresses);
    if (!links) return links.error();
    Result<std::unique_ptr<Waker>> made = Waker::create();
    if (!made) return made.error();
    waker = std::move(made).value();
    engine = std::make_unique<RingEngine>(options, std::move(links).value());
  }
  auto impl = std::make_shared<Impl>(options, std::move(engine), std::move(waker));
  const Status started = impl->start();
  if (!started) return started.error();
  return std::unique_ptr<Ring>(new Ring(std::move(impl)));
}

Ring::Ring(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

// A forked child must not join, close or free anything: the thread exists only in the parent, but
// the reference that it holds exists here too.
Ring::~Ring() {
  if (!impl_->forked()) impl_->close("the ring was destroyed");
}

std::size_t Ring::rank() const { return impl_->options().rank; }
std::size_t Ring::world_size() const { return impl_->options().world_size; }

RingHandle Ring::submit(RingRequest request) {
  if (impl_->forked()) {
    auto operation = std::make_shared<RingOperation>(std::move(request), 0);
    operation->finish(Error{operation->text() + ": " + kForked});
    return RingHandle(std::move(operation));
  }
  return RingHandle(impl_->submit(std::move(request)));
}

Status Ring::shutdown(std::chrono::milliseconds timeout) {
  return impl_->forked() ? Error{kForked} : impl_->shutdown(timeout);
}

void Ring::abort(const std::string& why) {
  if (!impl_->forked()) impl_->abort(why);
}

void Ring::give_up(const std::string& why) {
  if (!impl_->forked()) impl_->give_up(why);
}

void Ring::stop(const std::string& why) {
  if (!impl_->forked()) impl_->stop(why);
}

std::optional<std::string> Ring::failure() const {
  return impl_->forked() ? std::optional<std::string>(kForked) : impl_->failure();
}

FailureKind Ring::failure_kind() const {
  return impl_->forked() ? FailureKind::kNone : impl_->failure_kind();
}

bool Ring::wait_until_idle(steady_clock::time_point until) {
  return impl_->forked() || impl_->wait_until_idle(until);
}

bool Ring::on_own_thread() const { return !impl_->forked() && impl_->on_own_thread(); }

std::optional<WaitedForRanks> Ring::waited_for() const {
  return impl_->forked() ? std::nullopt : impl_->waited_for();
}

std::map<Rank, Duration> Ring::waits() const {
  return impl_->forked() ? std::map<Rank, Duration>() : impl_->waits();
}

RingCounterList Ring::counters() const {
  RingCounterList list;
  if (impl_->forked()) return list;
  impl_->counters().for_each([&](std::string_view name, std::uint64_t value) {
    list.emplace_back(std::string(name), value);
  });
  return list;
}

RingHandle::RingHandle(std::shared_ptr<RingOperation> operation)
    : operation_(std::move(operation)) {}

Status RingHandle::wait() const { return operation_->wait(); }
Status RingHandle::wait_or_interrupted(const MaybeInterruption& interruption) const {
  if (operation_->wait_or_interrupted(interruption)) return operation_->wait();
  return Error{*why_interrupted(interruption)};
}
bool RingHandle::done() const { return operation_->done(); }

}  // namespace atp
