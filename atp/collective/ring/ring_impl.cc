#include "atp/collective/ring/ring_impl.h"

#include <pthread.h>

#include <algorithm>

#include "atp/collective/quiet_thread.h"
#include "atp/collective/text.h"

namespace atp {
namespace {

using std::chrono::steady_clock;

constexpr const char* kShutDown = "the ring was shut down";

// The ring whose thread this is. (Thread ids are no answer: they are used again.)
thread_local const void* this_thread_drives = nullptr;

// For ranks without neighbours, whose operations end where they begin.
void carry_out_alone(RingOperation& operation) {
  make_passage(operation.request(), 0, 1, {});
  operation.finish(ok_status());
}

}  // namespace

bool Ring::Impl::on_own_thread() const { return this_thread_drives == this; }

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

// Takes the operation, or says why it takes none. Alone there is nobody to hand it to.
std::optional<std::string> Ring::Impl::enqueue(const std::shared_ptr<RingOperation>& operation) {
  std::unique_lock lock(mutex_);
  if (board_.closed) return board_.failure.value_or(board_.why_closed);
  if (is_alone()) return std::nullopt;
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
  } else {
    ++next_number_;
    refused = enqueue(operation);
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

}  // namespace atp
