#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

// The threads of a process group that finish its works in the order in which they ended.
//
// Finishing a work runs the callbacks of its Future, and a callback in Python waits for the GIL.
// The thread that drives the network must never wait for it: the peers would take this rank for
// dead. So that thread only hands the work over, and a thread of the pool finishes it.
//
// One thread is enough until a callback waits for another work of the group, which that thread
// could not finish. So when works have waited for a while behind one callback, another thread takes
// over, started when it is first needed; the first thread becomes a spare when its callback
// returns. In the usual case, one short callback after the other, one thread does everything.

namespace atp::pytorch {

class CompletionPool : public std::enable_shared_from_this<CompletionPool> {
 public:
  // The two steps of finishing a work.
  struct Ended {
    std::function<void()> settle;  // writes the result to the caller's tensors
    std::function<void()> tell;    // callbacks: may take long, and may wait for other works
  };

  // A work in progress. Every work must end, so one that is dropped (by an exception, say) ends
  // with nothing to do.
  class Expected {
   public:
    Expected(Expected&& other) noexcept;
    Expected& operator=(Expected&&) = delete;
    ~Expected();
    void end(Ended ended);
    // For a work that has not been returned yet: finishes it on this thread, which would otherwise
    // wait for it next.
    void end_here(const Ended& ended);

   private:
    friend class CompletionPool;
    Expected(std::shared_ptr<CompletionPool> pool, std::uint64_t number);

    std::shared_ptr<CompletionPool> pool_;  // null: it has ended
    std::uint64_t number_;
  };

  static std::shared_ptr<CompletionPool> start();
  ~CompletionPool();

  Expected expect();

  // Stands for all works expected so far.
  using Mark = std::uint64_t;
  Mark mark() const;
  bool have_settled(Mark works) const;
  // Their callbacks may still run: one of them may be the caller.
  void wait_until_settled(Mark works);
  // Calls `then` once they have settled, on one of the threads or at once; it must not block.
  void when_settled(Mark works, std::function<void()> then);
  // Waits until no work is in progress and no callback runs.
  void wait_until_idle();
  void wait_until_idle_for(std::chrono::milliseconds limit);

  // Finishes all expected works and ends the threads. A callback may call it, too: the threads then
  // end by themselves.
  void close();

  // Whether the caller runs in a callback.
  bool on_own_thread() const;
  std::size_t thread_count() const;  // so far

 private:
  struct Entry {
    std::uint64_t number;
    Ended ended;
  };
  struct Later {
    Mark works;
    std::function<void()> then;
  };
  using Lock = std::unique_lock<std::mutex>;

  CompletionPool() = default;
  void push(std::uint64_t number, Ended ended);
  void finish_here(std::uint64_t number, const Ended& ended);
  bool may_add_thread();
  bool add_thread(const Lock& held);
  void run();
  void finish_works(Lock& lock);
  void finish_one(Lock& lock);
  bool watch(Lock& lock);
  void call_a_watcher(const Lock& held);
  void settle(Lock& lock, std::uint64_t number);
  bool is_over() const { return closed_ && entries_.empty() && expected_ == 0; }

  mutable std::mutex mutex_;
  std::condition_variable work_;     // for the finisher: an entry, or the end
  std::condition_variable spare_;    // for the spares: a watcher is needed, or the end
  std::condition_variable changed_;  // for threads outside the pool that wait
  std::deque<Entry> entries_;
  std::size_t expected_ = 0;  // not yet pushed
  std::size_t unfinished_ = 0;
  std::deque<bool> settled_;  // from first_unsettled_ on
  std::uint64_t first_unsettled_ = 0;
  std::vector<Later> later_;
  std::vector<std::thread> threads_;
  std::thread::id finisher_;  // none: a thread is about to become it
  std::uint64_t round_ = 0;   // entries started
  bool telling_ = false;      // the finisher runs callbacks
  enum class Watch : std::uint8_t { kNone, kCalled, kOn };
  Watch watch_ = Watch::kNone;  // whether a spare watches the finisher's progress
  std::size_t spares_ = 0;      // asleep
  bool closed_ = false;
  bool warned_ = false;
};

}  // namespace atp::pytorch
