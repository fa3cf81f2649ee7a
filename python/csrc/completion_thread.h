#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

#include "python/csrc/collective_work.h"

// The thread of a process group that completes its works in the order in which they ended.
//
// Completing a work runs the callbacks of its Future, and one written in Python waits for the GIL.
// The thread that drives the network must never wait for it: the peers would take this rank for
// dead. So that thread only hands over, and this one completes.

namespace atp::pytorch {

class CompletionThread {
 public:
  // The end that hands over. It outlives the thread, as an operation may outlive its group.
  class Queue {
   public:
    void expect();                                       // one more work is on its way
    void push(c10::intrusive_ptr<CollectiveWork> work);  // it has ended
    void wait_until_idle();                              // all that were expected are complete
    void wait_until_idle_for(std::chrono::milliseconds limit);

   private:
    friend class CompletionThread;
    void run();
    void close();

    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<c10::intrusive_ptr<CollectiveWork>> ended_;
    std::size_t under_way_ = 0;
    bool closed_ = false;
  };

  CompletionThread();
  // Completes what has ended and stops. A callback may be the one who drops the last reference to
  // the group; the thread then stops by itself.
  ~CompletionThread();
  CompletionThread(const CompletionThread&) = delete;
  CompletionThread& operator=(const CompletionThread&) = delete;

  const std::shared_ptr<Queue>& queue() const { return queue_; }
  bool is_this_thread() const { return thread_.get_id() == std::this_thread::get_id(); }

 private:
  std::shared_ptr<Queue> queue_;
  std::thread thread_;
};

}  // namespace atp::pytorch
