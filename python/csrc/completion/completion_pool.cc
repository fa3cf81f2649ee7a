#include "python/csrc/completion/completion_pool.h"

#include <cstdio>
#include <system_error>
#include <utility>

#include "atp/base/interrupt.h"
#include "atp/collective/base/quiet_thread.h"

namespace atp::pytorch {
namespace {

// How long works wait behind one callback before another thread takes over: long compared to a
// callback that only computes, short compared to an operation.
constexpr std::chrono::milliseconds kPatience{1};
constexpr auto kForever = std::chrono::steady_clock::time_point::max();

// Each callback that waits holds a thread.
constexpr std::size_t kThreadsMax = 256;

// The pool that this thread belongs to. (Thread ids would not do: they are reused.)
thread_local const void* this_thread_serves = nullptr;

}  // namespace

CompletionPool::Expected::Expected(std::shared_ptr<CompletionPool> pool, std::uint64_t number)
    : pool_(std::move(pool)), number_(number) {}

CompletionPool::Expected::Expected(Expected&& other) noexcept
    : pool_(std::move(other.pool_)), number_(other.number_) {}

CompletionPool::Expected::~Expected() {
  if (pool_ != nullptr) end({});
}

void CompletionPool::Expected::end(Ended ended) {
  std::exchange(pool_, nullptr)->push(number_, std::move(ended));
}

void CompletionPool::Expected::end_here(const Ended& ended) {
  std::exchange(pool_, nullptr)->finish_here(number_, ended);
}

std::shared_ptr<CompletionPool> CompletionPool::start() {
  std::shared_ptr<CompletionPool> pool(new CompletionPool);
  const Lock lock(pool->mutex_);
  if (!pool->add_thread(lock)) {
    throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again),
                            "atp cannot start a thread (see ulimit -u)");
  }
  return pool;
}

CompletionPool::~CompletionPool() {
  // Only reached when all threads have ended, as each of them holds a reference.
  for (std::thread& thread : threads_) thread.detach();
}

bool CompletionPool::add_thread(const Lock& /*held*/) {
  Result<std::thread> thread =
      quiet_thread("atp-completion", [self = shared_from_this()] { self->run(); });
  if (thread) threads_.push_back(std::move(thread).value());
  return thread.ok();
}

CompletionPool::Expected CompletionPool::expect() {
  const Lock lock(mutex_);
  settled_.push_back(false);
  ++expected_;
  ++unfinished_;
  return {shared_from_this(), first_unsettled_ + settled_.size() - 1};
}

void CompletionPool::push(std::uint64_t number, Ended ended) {
  const Lock lock(mutex_);
  entries_.push_back({number, std::move(ended)});
  --expected_;
  if (telling_) {
    call_a_watcher(lock);
  } else {
    work_.notify_one();
  }
}

void CompletionPool::finish_here(std::uint64_t number, const Ended& ended) {
  ended.settle();
  Lock lock(mutex_);
  settle(lock, number);
  lock.unlock();
  ended.tell();
  lock.lock();
  --expected_;
  --unfinished_;
  if (unfinished_ == 0) changed_.notify_all();
  if (is_over()) {
    work_.notify_all();
    spare_.notify_all();
  }
}

void CompletionPool::run() {
  this_thread_serves = this;
  Lock lock(mutex_);
  while (!is_over()) {
    if (finisher_ == std::thread::id() || watch(lock)) finish_works(lock);
  }
  // Wakes the other threads, which then end too.
  work_.notify_all();
  spare_.notify_all();
}

// Runs for as long as this thread is the finisher.
void CompletionPool::finish_works(Lock& lock) {
  const std::thread::id self = std::this_thread::get_id();
  finisher_ = self;
  telling_ = false;
  while (finisher_ == self) {
    work_.wait(lock, [this] { return is_over() || !entries_.empty(); });
    if (entries_.empty()) {
      finisher_ = {};
      return;
    }
    finish_one(lock);
  }
}

void CompletionPool::finish_one(Lock& lock) {
  const std::thread::id self = std::this_thread::get_id();
  Entry entry = std::move(entries_.front());
  entries_.pop_front();
  ++round_;
  lock.unlock();
  if (entry.ended.settle) entry.ended.settle();
  lock.lock();
  settle(lock, entry.number);
  telling_ = true;
  if (!entries_.empty()) call_a_watcher(lock);
  lock.unlock();
  if (entry.ended.tell) entry.ended.tell();
  // The last reference to the tensors may be this one; they are freed outside the lock too.
  entry.ended = {};
  lock.lock();
  if (finisher_ == self) telling_ = false;
  --unfinished_;
  if (unfinished_ == 0) changed_.notify_all();
}

void CompletionPool::settle(Lock& lock, std::uint64_t number) {
  settled_[static_cast<std::size_t>(number - first_unsettled_)] = true;
  if (!settled_.front()) return;
  while (!settled_.empty() && settled_.front()) {
    settled_.pop_front();
    ++first_unsettled_;
  }
  changed_.notify_all();
  std::vector<Later> due;
  std::erase_if(later_, [&](Later& later) {
    if (later.works > first_unsettled_) return false;
    due.push_back(std::move(later));
    return true;
  });
  if (due.empty()) return;
  lock.unlock();
  for (const Later& later : due) later.then();
  // One of them may hold the last reference to an expected work, whose destructor takes the lock.
  due.clear();
  lock.lock();
}

// A spare thread sleeps until called, then watches for as long as works wait. True: it takes over.
bool CompletionPool::watch(Lock& lock) {
  const auto vacant = [this] { return is_over() || finisher_ == std::thread::id(); };
  ++spares_;
  spare_.wait(lock, [&] { return watch_ == Watch::kCalled || vacant(); });
  --spares_;
  if (vacant()) return false;
  watch_ = Watch::kOn;
  bool stuck = false;
  while (!stuck && !vacant() && !entries_.empty()) {
    const std::uint64_t round = round_;
    spare_.wait_for(lock, kPatience, vacant);
    stuck = telling_ && round_ == round && !entries_.empty();
  }
  watch_ = Watch::kNone;
  return stuck;
}

// Works wait behind a callback: makes sure that a thread notices if it does not end.
void CompletionPool::call_a_watcher(const Lock& held) {
  if (watch_ != Watch::kNone) return;
  if (spares_ == 0 && !may_add_thread()) return;
  if (spares_ == 0 && !add_thread(held)) return;
  watch_ = Watch::kCalled;
  spare_.notify_one();
}

bool CompletionPool::may_add_thread() {
  if (threads_.size() < kThreadsMax) return true;
  if (!std::exchange(warned_, true)) {
    std::fprintf(stderr,
                 "atp: %zu callbacks of one process group wait at the same time, each on a thread; "
                 "no more threads are started, so the next one may wait forever\n",
                 threads_.size());
  }
  return false;
}

CompletionPool::Mark CompletionPool::mark() const {
  const Lock lock(mutex_);
  return first_unsettled_ + settled_.size();
}

bool CompletionPool::have_settled(Mark works) const {
  const Lock lock(mutex_);
  return first_unsettled_ >= works;
}

void CompletionPool::wait_until_settled(Mark works) {
  Lock lock(mutex_);
  wait_or_interrupted(changed_, lock, kForever, [&] { return first_unsettled_ >= works; });
}

void CompletionPool::when_settled(Mark works, std::function<void()> then) {
  {
    const Lock lock(mutex_);
    if (first_unsettled_ < works) {
      later_.push_back({works, std::move(then)});
      return;
    }
  }
  then();
}

void CompletionPool::wait_until_idle() {
  Lock lock(mutex_);
  wait_or_interrupted(changed_, lock, kForever, [this] { return unfinished_ == 0; });
}

void CompletionPool::wait_until_idle_for(std::chrono::milliseconds limit) {
  Lock lock(mutex_);
  changed_.wait_for(lock, limit, [this] { return unfinished_ == 0; });
}

bool CompletionPool::on_own_thread() const { return this_thread_serves == this; }

std::size_t CompletionPool::thread_count() const {
  const Lock lock(mutex_);
  return threads_.size();
}

void CompletionPool::close() {
  Lock lock(mutex_);
  closed_ = true;
  work_.notify_all();
  spare_.notify_all();
  while (!threads_.empty()) {
    std::vector<std::thread> threads;
    threads.swap(threads_);
    lock.unlock();
    for (std::thread& thread : threads) on_own_thread() ? thread.detach() : thread.join();
    lock.lock();
  }
}

}  // namespace atp::pytorch
