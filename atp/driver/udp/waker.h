#pragma once

#include <atomic>
#include <memory>

#include "atp/base/result.h"

// Wakes or stops a thread that waits in an event loop, from other threads and signal handlers.

namespace atp {

class Waker {
 public:
  static Result<std::unique_ptr<Waker>> create();
  ~Waker();
  Waker(const Waker&) = delete;
  Waker& operator=(const Waker&) = delete;

  // Makes the loop run one more round before it sleeps. Any thread; safe in a signal handler.
  void wake();
  // Makes the loop end after its current round. Any thread; safe in a signal handler.
  void stop();
  bool stopped() const { return stopped_.load(std::memory_order_acquire); }

  // For the loop: readable after wake() until drain().
  int fd() const { return fd_; }
  void drain();

 private:
  explicit Waker(int fd) : fd_(fd) {}

  int fd_;
  std::atomic<bool> stopped_{false};
};

}  // namespace atp
