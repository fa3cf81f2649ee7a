#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>

#include "atp/cli/status/node_status.h"
#include "atp/driver/udp/waker.h"

// Lets a service's thread request the node's status from its loop, which polls is_asked() and
// answers. The service turns it into text, so that the loop gets back to its packets sooner.

namespace atp {

class LoopDesk {
 public:
  explicit LoopDesk(Waker& loop) : loop_(loop) {}

  // Waits for the answer; nothing on time-out or after close(). One caller at a time.
  std::optional<NodeStatus> ask();
  // Ends the current wait and all later ones without an answer.
  void close();

  // Called on the loop's thread.
  bool is_asked() const { return asked_.load(std::memory_order_relaxed); }
  void answer(NodeStatus status);

 private:
  Waker& loop_;
  std::atomic<bool> asked_{false};
  std::mutex mutex_;
  std::condition_variable answered_;
  std::optional<NodeStatus> status_;
  bool closed_ = false;
};

}  // namespace atp
