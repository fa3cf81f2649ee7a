#include "python/csrc/completion_thread.h"

#include <pthread.h>

#include <utility>

namespace atp::pytorch {

void CompletionThread::Queue::expect() {
  const std::lock_guard lock(mutex_);
  ++under_way_;
}

void CompletionThread::Queue::push(c10::intrusive_ptr<CollectiveWork> work) {
  const std::lock_guard lock(mutex_);
  ended_.push_back(std::move(work));
  changed_.notify_all();
}

void CompletionThread::Queue::wait_until_idle() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return under_way_ == 0; });
}

void CompletionThread::Queue::wait_until_idle_for(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, limit, [this] { return under_way_ == 0; });
}

void CompletionThread::Queue::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

void CompletionThread::Queue::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return closed_ || !ended_.empty(); });
    if (ended_.empty()) return;
    c10::intrusive_ptr<CollectiveWork> work = std::move(ended_.front());
    ended_.pop_front();
    lock.unlock();
    work->complete();
    // The last reference to the tensors may be this one; they are freed outside the lock too.
    work.reset();
    lock.lock();
    --under_way_;
    changed_.notify_all();
  }
}

CompletionThread::CompletionThread() : queue_(std::make_shared<Queue>()) {
  thread_ = std::thread([queue = queue_] { queue->run(); });
  pthread_setname_np(thread_.native_handle(), "atp-completion");
}

CompletionThread::~CompletionThread() {
  queue_->close();
  if (is_this_thread()) {
    thread_.detach();
  } else {
    thread_.join();
  }
}

}  // namespace atp::pytorch
