#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>

#include "atp/cli/status/node_status.h"
#include "atp/driver/udp/waker.h"

// Lets a service's thread request the node's status from its loop, which polls is_asked() and
// answers. The service turns it into text, so that the loop gets back to its packets sooner.

namespace atp {

class LoopDesk {
 public:
  explicit LoopDesk(Waker& loop, std::chrono::milliseconds patience = std::chrono::seconds(2))
      : loop_(loop), patience_(patience) {}

  // Waits for the answer; nothing on time-out or after close(). One caller at a time.
  std::optional<NodeStatus> ask();
  // Ends the current wait and all later ones without an answer.
  void close();

  // Called on the loop's thread, which then sees what the thread that asks has written before.
  bool is_asked() {
    taken_ = asked_.load(std::memory_order_acquire);
    return taken_ != answered_;
  }
  // Answers the question that is_asked() has seen; dropped if that is not the last one any more.
  void answer(NodeStatus status);

 private:
  Waker& loop_;
  const std::chrono::milliseconds patience_;
  std::atomic<std::uint64_t> asked_{0};  // questions so far
  std::uint64_t taken_ = 0;              // of the loop's thread: those that it has seen, answered
  std::uint64_t answered_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<NodeStatus> status_;
  bool closed_ = false;
};

}  // namespace atp
