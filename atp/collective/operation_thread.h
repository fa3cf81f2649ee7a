#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "atp/base/result.h"
#include "atp/base/text.h"
#include "atp/base/time.h"
#include "atp/collective/completion.h"
#include "atp/collective/quiet_thread.h"
#include "atp/driver/udp/waker.h"

namespace atp {

inline std::chrono::steady_clock::time_point deadline_in(std::chrono::milliseconds timeout) {
  return std::chrono::steady_clock::now() + bounded_timeout(timeout);
}

// A thread that carries out operations, and the board at which it meets its callers, under one
// mutex: operations and the wish to leave go in; progress, failure and a Report come out, once each
// round of the thread's loop. A lane and a ring each have one, and own everything else from within
// the thread.
//
// Whoever submits, closes or asks may do so from any thread, also from a callback on this one,
// where nothing waits. The object must outlive the thread, so the thread's body holds a reference
// to its owner.
template <class Operation, class Report>
class OperationThread {
 public:
  using SteadyTime = std::chrono::steady_clock::time_point;

  struct Commands {
    std::deque<std::shared_ptr<Operation>> submitted;
    std::optional<std::string> leave;  // and why operations in flight fail
    std::optional<std::string> stop;   // likewise, but without leaving
  };
  struct Progress {
    std::size_t pending = 0;  // operations taken and not ended
    bool left = false;        // has nothing more to say to its peers
    std::optional<std::string> failure;
    Report report;
  };

  // `waker` interrupts the thread's sleep. Null: there is no thread, whoever submits an operation
  // carries it out. `shut_down` is the reason that operations after shutdown() are given.
  OperationThread(std::unique_ptr<Waker> waker, std::string shut_down)
      : waker_(std::move(waker)), shut_down_(std::move(shut_down)) {}

  // The name has at most 15 characters.
  template <class Body>
  Status start(const char* name, Body body) {
    Result<std::thread> started = quiet_thread(name, [this, body = std::move(body)] {
      running_here = this;
      body();
    });
    if (!started) return started.error();
    thread_ = std::move(started).value();
    return ok_status();
  }

  // The callers' side.

  // Takes the operation, or says why it takes none. `wakes`: else the caller sees to it that
  // somebody takes it.
  std::optional<std::string> submit(std::shared_ptr<Operation> operation, bool wakes = true) {
    std::unique_lock lock(mutex_);
    if (refusal_) return why_refused();
    const bool asleep = wakes && commands_.submitted.empty();
    commands_.submitted.push_back(std::move(operation));
    lock.unlock();
    if (asleep) waker_->wake();
    return std::nullopt;
  }
  // Why it takes no operations any more.
  std::optional<std::string> refusal() const {
    const std::lock_guard lock(mutex_);
    return refusal_ ? std::optional(why_refused()) : std::nullopt;
  }
  std::optional<std::string> failure() const {
    const std::lock_guard lock(mutex_);
    return progress_.failure;
  }
  Report report() const {
    const std::lock_guard lock(mutex_);
    return progress_.report;
  }
  template <class Condition>
  void wait_until(const Condition& condition) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return condition(progress_.report); });
  }
  bool on_own_thread() const { return running_here == this; }

  // False: at `until` there were still operations in flight.
  bool wait_until_idle(SteadyTime until) {
    std::unique_lock lock(mutex_);
    return changed_.wait_until(lock, until, [this] { return closing_ || in_flight() == 0; });
  }

  // Asks the thread to leave, and does not wait: shutdown() or close() is still due.
  void give_up(const std::string& why) {
    const std::lock_guard lock(mutex_);
    if (refusal_) return;
    if (!progress_.failure) progress_.failure = why;
    refuse(why);
  }

  // Fails what is in flight and all that comes, and does not wait: for one whose peers need not
  // learn of it yet.
  void stop(const std::string& why) {
    const std::lock_guard lock(mutex_);
    if (refusal_ || progress_.failure) return;
    progress_.failure = why;
    commands_.stop = why;
    waker_->wake();
  }

  // Leaves, waits for that until `until`, and ends the thread; whoever comes second waits until the
  // first has done it. In a callback on this very thread, which must be the last call of all, it
  // only lets go of the thread, which leaves after the callback and then ends by itself.
  void close(const std::string& why, SteadyTime until) {
    std::unique_lock lock(mutex_);
    if (closing_) {
      if (!on_own_thread()) changed_.wait(lock, [this] { return ended_; });
      return;
    }
    closing_ = true;
    if (!refusal_) refuse(why);
    if (thread_.joinable()) end_thread(lock, until);
    ended_ = true;
    changed_.notify_all();
  }

  // Likewise, but in haste, which counts from when the thread was first asked to leave: several
  // that have been asked (give_up) end together.
  void close_in_haste(const std::string& why, std::chrono::milliseconds haste) {
    give_up(why);
    std::unique_lock lock(mutex_);
    const SteadyTime until = asked_to_leave_ + haste;
    lock.unlock();
    close(why, until);
  }

  // Waits until `until`, which `timeout` has led to, for the operations in flight, and closes. What
  // is left then fails; so that the peers learn of it, `haste` is given to leaving in any case.
  Status shutdown(SteadyTime until, std::chrono::milliseconds timeout,
                  std::chrono::milliseconds haste) {
    if (on_own_thread()) return Error{"shutdown() would wait for itself in a callback"};
    const bool finished = wait_until_idle(until);
    std::unique_lock lock(mutex_);
    const std::size_t left = in_flight();
    const std::optional<std::string> failure = progress_.failure;
    lock.unlock();
    if (!finished) {
      const std::string why = "shut down after " + seconds_text(timeout) + " with " +
                              std::to_string(left) + " operations in flight";
      close_in_haste(why, haste);
      return Error{why};
    }
    if (failure) {
      close_in_haste(shut_down_, haste);
    } else {
      close(shut_down_, std::max(until, std::chrono::steady_clock::now() + haste));
    }
    if (failure && *failure != shut_down_) return Error{*failure};
    return ok_status();
  }

  // The thread's side.

  // Whoever plays the thread, for as long as this lives. One at a time.
  class Role {
   public:
    explicit Role(const OperationThread& thread)
        : before_(std::exchange(running_here, static_cast<const void*>(&thread))) {}
    ~Role() { running_here = before_; }
    Role(const Role&) = delete;
    Role& operator=(const Role&) = delete;

   private:
    const void* const before_;
  };
  Waker& waker() { return *waker_; }
  Commands take() {
    const std::lock_guard lock(mutex_);
    progress_.pending += commands_.submitted.size();
    return std::exchange(commands_, {});
  }
  // Shows the progress, and then tells those whose operations have ended, who so find it as it was
  // at the end. Until they are told, which may lead to further operations, theirs count as pending.
  // True if there are new commands: who has just left may free the memory of its operations, so
  // they come before anything else.
  bool publish(Progress progress, std::vector<EndedOperation<Operation>> ended) {
    {
      const std::lock_guard lock(mutex_);
      if (!progress.failure) progress.failure = std::move(progress_.failure);
      progress_ = std::move(progress);
      progress_.pending += ended.size();
      if (stop_by_ && (progress_.left || std::chrono::steady_clock::now() >= *stop_by_)) {
        waker_->stop();
      }
    }
    changed_.notify_all();
    if (ended.empty()) return false;
    for (EndedOperation<Operation>& each : ended) each.operation->finish(std::move(each.result));
    const std::lock_guard lock(mutex_);
    progress_.pending -= ended.size();
    changed_.notify_all();
    return commands_.leave || commands_.stop || !commands_.submitted.empty();
  }
  // Until when it goes on, once its owner has let go of it.
  std::optional<SteadyTime> stop_by() const {
    const std::lock_guard lock(mutex_);
    return stop_by_;
  }

 private:
  // With mutex_ held.
  std::string why_refused() const { return progress_.failure.value_or(*refusal_); }
  void refuse(const std::string& why) {
    refusal_ = why;
    asked_to_leave_ = std::chrono::steady_clock::now();
    commands_.leave = why;
    if (waker_ != nullptr) waker_->wake();
  }
  std::size_t in_flight() const { return progress_.pending + commands_.submitted.size(); }
  void end_thread(std::unique_lock<std::mutex>& lock, SteadyTime until) {
    if (on_own_thread()) {
      thread_.detach();
      stop_by_ = until;
      return;
    }
    changed_.wait_until(lock, until, [this] { return progress_.left; });
    lock.unlock();
    waker_->stop();
    thread_.join();
    lock.lock();
  }

  // Which one's thread this is. (Thread ids are no answer: they are used again.)
  static inline thread_local const void* running_here = nullptr;

  const std::unique_ptr<Waker> waker_;
  const std::string shut_down_;
  std::thread thread_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Commands commands_;
  Progress progress_;
  std::optional<std::string> refusal_;  // why it takes no more operations
  SteadyTime asked_to_leave_;           // since it takes none
  bool closing_ = false;
  std::optional<SteadyTime> stop_by_;  // the thread is on its own
  bool ended_ = false;                 // it is gone, or on its own
};

}  // namespace atp
