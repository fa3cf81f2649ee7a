#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>

#include "atp/driver/udp/waker.h"

// How the thread of a service has the node's loop write a document: the loop looks whether it is
// asked, and answers.

namespace atp {

class LoopDesk {
 public:
  explicit LoopDesk(Waker& loop) : loop_(loop) {}

  // Nothing: the loop did not answer in time, or close() came. One at a time.
  std::optional<std::string> ask();
  // Whoever waits, or asks from now on, gets nothing.
  void close();

  // For the loop's thread.
  bool is_asked() const { return asked_.load(std::memory_order_relaxed); }
  void answer(std::string document);

 private:
  Waker& loop_;
  std::atomic<bool> asked_{false};
  std::mutex mutex_;
  std::condition_variable answered_;
  std::optional<std::string> document_;
  bool closed_ = false;
};

}  // namespace atp
