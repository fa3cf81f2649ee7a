#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "atp/base/failure_kind.h"
#include "atp/base/interrupt.h"
#include "atp/base/result.h"
#include "atp/base/text.h"
#include "atp/base/time.h"
#include "atp/collective/base/completion.h"
#include "atp/collective/base/quiet_thread.h"
#include "atp/collective/recorder/flight_recorder.h"
#include "atp/collective/waits/late_ranks.h"
#include "atp/driver/udp/waker.h"

namespace atp {

inline std::chrono::steady_clock::time_point deadline_in(std::chrono::milliseconds timeout) {
  return std::chrono::steady_clock::now() + bounded_timeout(timeout);
}

// What is left of a time-out that bounds several stages. Never nothing: with no time at all, some
// stages would name nobody.
inline std::chrono::milliseconds left_until(std::chrono::steady_clock::time_point until) {
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
  return std::max(left, std::chrono::milliseconds(100));
}

// What a thread that carries out operations tells the callers about them.
template <class Counters>
struct ThreadReport {
  Counters counters;
  std::optional<WaitedForRanks> waited_for;
  std::map<Rank, Duration> waits;
};

// A thread that carries out operations, and the data that it shares with its callers under one
// mutex: callers put in operations and the request to leave; the thread publishes progress, failure
// and a Report once per round of its loop. Lanes and rings each have one; everything else that they
// own belongs to the thread alone.
//
// Callers may submit, close or query from any thread, including from a callback on this one, where
// no call waits. The object must outlive the thread, so the thread's body holds a reference to its
// owner.
template <class Operation, class Report>
class TransportThread {
 public:
  using SteadyTime = std::chrono::steady_clock::time_point;

  struct Commands {
    std::deque<std::shared_ptr<Operation>> submitted;
    std::optional<std::string> leave;  // leave; operations in flight fail for this reason
    std::optional<std::string> stop;   // the same without leaving
  };
  struct Progress {
    std::size_t pending = 0;  // operations taken and not ended
    bool left = false;        // there is nothing more to send to the peers
    std::optional<std::string> failure;
    FailureKind failure_kind = FailureKind::kNone;
    Report report;
  };

  // `waker` interrupts the thread's sleep. Null: there is no thread, and the caller that submits an
  // operation carries it out. `shut_down`: the error of operations after shutdown().
  TransportThread(std::unique_ptr<Waker> waker, std::string shut_down)
      : waker_(std::move(waker)), shut_down_(std::move(shut_down)) {}

  // Before start(): where its failure is recorded; may be null.
  void record_to(std::shared_ptr<RecordedGroup> recorded) { recorded_ = std::move(recorded); }

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

  // For the callers.

  // Takes the operation, or returns why it takes none. `wakes`: wakes the thread; otherwise the
  // caller must make sure that the operation is carried out.
  std::optional<std::string> submit(std::shared_ptr<Operation> operation, bool wakes = true) {
    std::unique_lock lock(mutex_);
    if (refusal_) return why_refused();
    const bool asleep = wakes && commands_.submitted.empty();
    commands_.submitted.push_back(std::move(operation));
    lock.unlock();
    if (asleep) waker_->wake();
    return std::nullopt;
  }
  // Why it takes no more operations; nothing if it still does.
  std::optional<std::string> refusal() const {
    const std::lock_guard lock(mutex_);
    return refusal_ ? std::optional(why_refused()) : std::nullopt;
  }
  std::optional<std::string> failure() const {
    const std::lock_guard lock(mutex_);
    return progress_.failure;
  }
  // kNone for a failure that a caller has reported, with give_up() or stop().
  FailureKind failure_kind() const {
    const std::lock_guard lock(mutex_);
    return progress_.failure_kind;
  }
  Report report() const {
    const std::lock_guard lock(mutex_);
    return progress_.report;
  }
  // False: at `until` it was not so yet.
  template <class Condition>
  bool wait_until(const Condition& condition, SteadyTime until,
                  const MaybeInterruption& interruption) {
    std::unique_lock lock(mutex_);
    const auto holds = [&] { return condition(progress_.report); };
    return wait_or_interrupted(changed_, lock, until, holds, interruption);
  }
  bool on_own_thread() const { return running_here == this; }

  // False: at `until` there were still operations in flight.
  bool wait_until_idle(SteadyTime until) {
    std::unique_lock lock(mutex_);
    return wait_or_interrupted(changed_, lock, until,
                               [this] { return closing_ || in_flight() == 0; });
  }

  // Asks the thread to leave without waiting; shutdown() or close() must still follow.
  void give_up(const std::string& why) {
    const std::lock_guard lock(mutex_);
    if (refusal_) return;
    if (!progress_.failure) progress_.failure = why;
    refuse(why);
  }

  // Fails operations in flight and later ones without waiting and without leaving: the peers need
  // not learn of it yet.
  void stop(const std::string& why) {
    const std::lock_guard lock(mutex_);
    if (refusal_ || progress_.failure) return;
    progress_.failure = why;
    commands_.stop = why;
    waker_->wake();
  }

  // Leaves, waits for that but not beyond `until`, and ends the thread. A second caller waits until
  // the first has finished. In a callback on this thread, where it must be the last call, it only
  // detaches the thread, which leaves after the callback and then ends by itself.
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

  // The same with a short wait, counted from when the thread was first asked to leave, so that
  // several threads that were asked (give_up) end together.
  void close_in_haste(const std::string& why, std::chrono::milliseconds haste) {
    give_up(why);
    std::unique_lock lock(mutex_);
    const SteadyTime until = asked_to_leave_ + haste;
    lock.unlock();
    close(why, until);
  }

  // Waits for the operations in flight until `until` (now + `timeout`), and closes. Operations left
  // then fail; leaving still gets `haste`, so that the peers learn of it.
  Status shutdown(SteadyTime until, std::chrono::milliseconds timeout,
                  std::chrono::milliseconds haste) {
    if (on_own_thread()) return Error{"shutdown() would wait for itself in a callback"};
    const bool finished = wait_until_idle(until);
    std::unique_lock lock(mutex_);
    const std::size_t left = in_flight();
    const std::optional<std::string> failure = progress_.failure;
    lock.unlock();
    if (!finished) {
      const bool in_time = std::chrono::steady_clock::now() < until;
      const std::string why = (in_time ? "interrupted while shutting down"
                                       : "shut down after " + seconds_text(timeout)) +
                              " with " + std::to_string(left) + " operations in flight";
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

  // For the thread.

  // Takes a step of `rank`. What it needs may not fit into memory, which must not end the process:
  // `fail` then gets the reason.
  template <class Step, class Fail>
  static void guarded(const std::string& rank, const Step& step, const Fail& fail) {
    try {
      step();
    } catch (const std::bad_alloc&) {
      fail(rank +
           " has no memory left for this operation: raise its limit (ulimit -v, or that of "
           "the container), or use smaller tensors");
    }
  }
  // Passes on news about a wait: to the record, and to `warn` or, without one, to stderr.
  void tell(const LateRanks::Line& line, const std::function<void(const std::string&)>& warn) {
    if (recorded_) {
      std::vector<std::size_t> ranks;
      line.ranks.for_each([&](Rank rank) { ranks.push_back(rank); });
      recorded_->note(line.is_over ? RecordedKind::kWaitingOver : RecordedKind::kWaiting, line.text,
                      ranks);
    }
    warn ? warn(line.text) : tell_on_stderr(line.text);
  }
  // Makes the current thread act as this one while it lives. One at a time.
  class Role {
   public:
    explicit Role(const TransportThread& thread)
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
  // Publishes the progress and then finishes the ended operations, so that their callers see the
  // progress as it was at the end. An operation counts as pending until its caller, which may
  // submit further ones, has been notified. True: there are new commands, which come before
  // anything else, because a caller that leaves may free its operations' memory.
  bool publish(Progress progress, std::vector<EndedOperation<Operation>> ended) {
    {
      const std::lock_guard lock(mutex_);
      if (!progress.failure) {
        progress.failure = std::move(progress_.failure);
        progress.failure_kind = progress_.failure_kind;
      }
      record_failure(progress.failure);
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
  // What its engine has to tell.
  template <class Engine>
  bool publish(Engine& engine, bool left, const std::function<void(const std::string&)>& warn) {
    while (const auto line = engine.take_line()) tell(*line, warn);
    return publish({.pending = engine.pending(),
                    .left = left,
                    .failure = engine.failure(),
                    .failure_kind = engine.failure_kind(),
                    .report = {engine.counters(), engine.waited_for(), engine.late().waits()}},
                   engine.take_ended());
  }
  // When it must stop, once its owner has detached it.
  std::optional<SteadyTime> stop_by() const {
    const std::lock_guard lock(mutex_);
    return stop_by_;
  }

 private:
  // Requires mutex_.
  std::string why_refused() const { return progress_.failure.value_or(*refusal_); }
  void refuse(const std::string& why) {
    refusal_ = why;
    asked_to_leave_ = std::chrono::steady_clock::now();
    commands_.leave = why;
    if (waker_ != nullptr) waker_->wake();
  }
  // Records the first failure, before any operation ends with it. A rank that was asked to leave
  // has not failed.
  void record_failure(const std::optional<std::string>& failure) {
    if (!failure || !recorded_ || is_recorded_) return;
    is_recorded_ = true;
    refusal_ ? recorded_->note(RecordedKind::kLeft, *failure) : recorded_->failed(*failure);
  }
  std::size_t in_flight() const { return progress_.pending + commands_.submitted.size(); }
  void end_thread(std::unique_lock<std::mutex>& lock, SteadyTime until) {
    if (on_own_thread()) {
      thread_.detach();
      stop_by_ = until;
      return;
    }
    wait_or_interrupted(changed_, lock, until, [this] { return progress_.left; });
    lock.unlock();
    waker_->stop();
    thread_.join();
    lock.lock();
  }

  // The TransportThread that runs on the current thread. (Thread ids will not do: they are reused.)
  static inline thread_local const void* running_here = nullptr;

  const std::unique_ptr<Waker> waker_;
  const std::string shut_down_;
  std::shared_ptr<RecordedGroup> recorded_;
  std::thread thread_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Commands commands_;
  Progress progress_;
  std::optional<std::string> refusal_;  // why it takes no more operations
  SteadyTime asked_to_leave_;           // when refusal_ was set
  bool closing_ = false;
  bool is_recorded_ = false;           // progress_.failure
  std::optional<SteadyTime> stop_by_;  // set: the thread is detached
  bool ended_ = false;                 // the thread has ended or is detached
};

}  // namespace atp
