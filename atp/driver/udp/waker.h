#pragma once

#include <atomic>
#include <memory>

#include "atp/base/result.h"

// How other threads, and signal handlers, reach a thread that waits in an event loop.

namespace atp {

class Waker {
 public:
  static Result<std::unique_ptr<Waker>> create();
  ~Waker();
  Waker(const Waker&) = delete;
  Waker& operator=(const Waker&) = delete;

  // The loop does one more round before it sleeps. Any thread; safe in a signal handler.
  void wake();
  // The loop ends after its round. Any thread; safe in a signal handler.
  void stop();
  bool stopped() const { return stopped_.load(std::memory_order_acquire); }

  // For the loop: readable after wake() until drained.
  int fd() const { return fd_; }
  void drain();

 private:
  explicit Waker(int fd) : fd_(fd) {}

  int fd_;
  std::atomic<bool> stopped_{false};
};

}  // namespace atp
