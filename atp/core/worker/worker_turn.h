#pragma once

#include <optional>
#include <vector>

#include "atp/base/check.h"
#include "atp/core/turn.h"
#include "atp/core/worker/worker_api.h"
#include "atp/core/worker/worker_counter.h"

// What the parts of a worker share during one call: the turn, and the queue of events for the
// application.

namespace atp {

// Events that wait to be polled. Memory is allocated once: one place for the end of each open
// operation, and kSpare for news about the membership, which are dropped if nobody polls them.
class EventQueue {
 public:
  static constexpr std::size_t kSpare = 64;

  explicit EventQueue(std::size_t operations_max) : ring_(operations_max + kSpare) {}

  // The end of an operation, or of the membership.
  void push(const Event& event) {
    ATP_CHECK(size_ < ring_.size());
    ring_[(head_ + size_++) % ring_.size()] = event;
  }
  // News, dropped when the spare places are taken.
  void push_news(const Event& event) {
    if (news_ >= kSpare - 4) return;  // four are kept for kJoined, kFailed, kLeft
    ++news_;
    push(event);
  }
  std::optional<Event> pop() {
    if (size_ == 0) return std::nullopt;
    const Event event = ring_[head_];
    head_ = (head_ + 1) % ring_.size();
    --size_;
    if (is_news(event)) --news_;
    return event;
  }

  bool operator==(const EventQueue&) const = default;

 private:
  static bool is_news(const Event& event) {
    switch (event.kind) {
      case EventKind::kJoined:
      case EventKind::kCompleted:
      case EventKind::kFailed:
      case EventKind::kLeft: return false;
      default: return true;
    }
  }

  std::vector<Event> ring_;
  std::size_t head_ = 0;
  std::size_t size_ = 0;
  std::size_t news_ = 0;
};

struct WorkerTurn : Turn<WorkerConfig, WorkerCounter> {
  Tensors& tensors;
  EventQueue& events;
};

}  // namespace atp
