#include "atp/collective/ring/ring.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "atp/collective/quiet_thread.h"
#include "atp/collective/ring/engine.h"
#include "atp/collective/text.h"
#include "atp/driver/udp/waker.h"

namespace atp {
namespace {

using std::chrono::steady_clock;

constexpr const char* kShutDown = "the ring was shut down";
constexpr const char* kForked =
    "this process was forked after the ring was made and has no part in it: make a ring of its own";

// The ring whose thread this is. (Thread ids are no answer: they are used again.)
thread_local const void* this_thread_drives = nullptr;

// For ranks without neighbours, whose operations end where they begin.
void carry_out_alone(RingOperation& operation) {
  make_passage(operation.request(), 0, 1, {});
  operation.finish(ok_status());
}

Status check(const RingOptions& options, const std::vector<Endpoint>& addresses) {
  if (options.world_size > 0 && addresses.size() == options.world_size &&
      options.rank < options.world_size) {
    return ok_status();
  }
  return Error{"rank " + std::to_string(options.rank) + " of " +
               std::to_string(options.world_size) + " ranks with " +
               std::to_string(addresses.size()) + " addresses: expected an address for each rank"};
}

}  // namespace

// Two sides share this object. The thread owns the engine. Callers and the thread meet in the
// board, under mutex_.
class Ring::Impl : public std::enable_shared_from_this<Ring::Impl> {
 public:
  Impl(RingOptions options, std::unique_ptr<RingEngine> engine, std::unique_ptr<Waker> waker)
      : options_(std::move(options)), engine_(std::move(engine)), waker_(std::move(waker)) {}

  void start();
  std::shared_ptr<RingOperation> submit(RingRequest request);
  Status shutdown(std::chrono::milliseconds timeout);
  void close(const std::string& why);
  RingCounterList counters();

  const RingOptions& options() const { return options_; }
  bool forked() const { return getpid() != owner_; }
  bool on_own_thread() const { return this_thread_drives == this; }

 private:
  struct Board {
    std::deque<std::shared_ptr<RingOperation>> submitted;
    std::size_t pending = 0;  // taken by the engine and not ended
    bool closed = false;      // takes no more operations
    bool ended = false;       // the thread is gone, or about to go
    std::string why_closed;
    std::optional<std::string> failure;
    RingCounters counters;
  };

  void run();
  bool take_commands();
  void publish();  // and tells those whose operations have ended
  std::array<pollfd, 4> wait_for_work();
  std::optional<std::string> enqueue(const std::shared_ptr<RingOperation>& operation);

  const RingOptions options_;
  const pid_t owner_ = getpid();
  std::unique_ptr<RingEngine> engine_;  // null: alone
  std::unique_ptr<Waker> waker_;
  std::thread thread_;

  std::mutex mutex_;
  std::condition_variable changed_;
  Board board_;
  std::mutex order_mutex_;  // numbers and submissions are in one order
  std::uint64_t next_number_ = 0;
};

void Ring::Impl::start() {
  if (engine_ == nullptr) return;
  thread_ = quiet_thread([self = shared_from_this()] { self->run(); });
  pthread_setname_np(thread_.native_handle(), "atp-ring");
}

void Ring::Impl::run() {
  this_thread_drives = this;
  std::array<pollfd, 4> ready{};
  while (take_commands()) {
    engine_->work(steady_clock::now(), ready);
    publish();
    ready = wait_for_work();
  }
  engine_->leave(board_.why_closed);
  publish();
  engine_.reset();  // closes the connections
}

bool Ring::Impl::take_commands() {
  std::deque<std::shared_ptr<RingOperation>> submitted;
  bool goes_on = true;
  {
    const std::lock_guard lock(mutex_);
    submitted.swap(board_.submitted);
    board_.pending += submitted.size();
    goes_on = !board_.closed;
  }
  for (auto& operation : submitted) engine_->submit(std::move(operation), steady_clock::now());
  return goes_on;
}

void Ring::Impl::publish() {
  std::unique_lock lock(mutex_);
  const bool news = board_.pending != engine_->pending() || board_.failure != engine_->failure();
  board_.pending = engine_->pending();
  board_.failure = engine_->failure();
  board_.counters = engine_->counters();
  if (news) changed_.notify_all();
  lock.unlock();
  for (const RingEngine::Ended& ended : engine_->take_ended()) {
    ended.operation->finish(ended.result);
  }
}

std::array<pollfd, 4> Ring::Impl::wait_for_work() {
  const auto interests = engine_->interests();
  std::array<pollfd, 5> waited{pollfd{waker_->fd(), POLLIN, 0}};
  std::copy(interests.begin(), interests.end(), waited.begin() + 1);
  int timeout_ms = -1;
  if (const auto until = engine_->next_timeout()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*until - steady_clock::now());
    timeout_ms = static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 60'000));
  }
  engine_->count_wait();
  poll(waited.data(), waited.size(), timeout_ms);
  if (waited[0].revents != 0) waker_->drain();
  return {waited[1], waited[2], waited[3], waited[4]};
}

// Takes the operation, or says why it takes none.
std::optional<std::string> Ring::Impl::enqueue(const std::shared_ptr<RingOperation>& operation) {
  std::unique_lock lock(mutex_);
  if (board_.closed) return board_.failure.value_or(board_.why_closed);
  const bool asleep = board_.submitted.empty();
  board_.submitted.push_back(operation);
  lock.unlock();
  if (asleep) waker_->wake();
  return std::nullopt;
}

std::shared_ptr<RingOperation> Ring::Impl::submit(RingRequest request) {
  const Status valid = check(request, options_.rank, options_.world_size);
  std::unique_lock lock(order_mutex_);
  auto operation = std::make_shared<RingOperation>(std::move(request), next_number_);
  std::optional<std::string> refused;
  if (!valid) {
    refused = valid.error().message;
  } else if (options_.world_size > 1) {
    ++next_number_;
    refused = enqueue(operation);
  }
  lock.unlock();
  // A callback may submit the next operation.
  if (refused) {
    operation->finish(Error{operation->text() + ": " + *refused});
  } else if (options_.world_size == 1) {
    carry_out_alone(*operation);
  }
  return operation;
}

// Leaves the ring and ends the thread; whoever comes second waits until the first has done it.
void Ring::Impl::close(const std::string& why) {
  std::unique_lock lock(mutex_);
  if (board_.closed) {
    if (!on_own_thread()) changed_.wait(lock, [this] { return board_.ended; });
    return;
  }
  board_.closed = true;
  board_.why_closed = why;
  lock.unlock();
  if (waker_ != nullptr) waker_->wake();
  if (on_own_thread()) {
    // A callback dropped the last reference: the thread ends after it, and frees this object.
    thread_.detach();
  } else if (thread_.joinable()) {
    thread_.join();
  }
  lock.lock();
  board_.ended = true;
  changed_.notify_all();
}

Status Ring::Impl::shutdown(std::chrono::milliseconds timeout) {
  if (on_own_thread()) return Error{"shutdown() would wait for itself in a callback"};
  std::unique_lock lock(mutex_);
  const bool finished = changed_.wait_for(lock, timeout, [this] {
    return board_.closed || (board_.submitted.empty() && board_.pending == 0);
  });
  const std::size_t left = board_.pending + board_.submitted.size();
  lock.unlock();
  const std::string why = finished ? kShutDown
                                   : "shut down after " + seconds_text(timeout) + " with " +
                                         std::to_string(left) + " operations in flight";
  close(why);
  lock.lock();
  if (!finished) return Error{why};
  if (board_.failure) return Error{*board_.failure};
  return ok_status();
}

RingCounterList Ring::Impl::counters() {
  RingCounterList list;
  const std::lock_guard lock(mutex_);
  board_.counters.for_each([&](std::string_view name, std::uint64_t value) {
    list.emplace_back(std::string(name), value);
  });
  return list;
}

Result<std::unique_ptr<Ring>> Ring::connect(const RingListener& listener,
                                            const RingOptions& options,
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
  impl->start();
  return std::unique_ptr<Ring>(new Ring(std::move(impl)));
}

Ring::Ring(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

// In a forked child nothing may be joined, closed or freed. The thread that stayed behind in the
// parent holds a reference, here too.
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
  if (!impl_->forked()) impl_->close(why);
}

RingCounterList Ring::counters() const {
  return impl_->forked() ? RingCounterList() : impl_->counters();
}

RingHandle::RingHandle(std::shared_ptr<RingOperation> operation)
    : operation_(std::move(operation)) {}

Status RingHandle::wait() const { return operation_->wait(); }
bool RingHandle::done() const { return operation_->done(); }

}  // namespace atp
