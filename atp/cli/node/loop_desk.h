#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>

#include "atp/driver/udp/waker.h"

// Lets a service's thread request a document from the node's loop, which polls is_asked() and
// answers.

namespace atp {

class LoopDesk {
 public:
  explicit LoopDesk(Waker& loop) : loop_(loop) {}

  // Waits for the answer; nothing on time-out or after close(). One caller at a time.
  std::optional<std::string> ask();
  // Ends the current wait and all later ones without an answer.
  void close();

  // Called on the loop's thread.
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
