#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "atp/base/time.h"

namespace atp::sim {

// Events in the order of their time; those of one instant in the order in which they were pushed,
// so that the same seed gives the same run on every machine.
template <class Event>
class EventQueue {
 public:
  void push(Instant when, Event event) {
    heap_.push_back({when, number_++, std::move(event)});
    std::push_heap(heap_.begin(), heap_.end(), later);
  }

  bool empty() const { return heap_.empty(); }
  std::size_t size() const { return heap_.size(); }
  Instant next() const { return heap_.empty() ? kNever : heap_.front().when; }

  // The queue must not be empty.
  Event pop() {
    std::pop_heap(heap_.begin(), heap_.end(), later);
    Event event = std::move(heap_.back().event);
    heap_.pop_back();
    return event;
  }

 private:
  struct Entry {
    Instant when;
    std::uint64_t number;
    Event event;
  };
  static bool later(const Entry& a, const Entry& b) {
    return a.when != b.when ? a.when > b.when : a.number > b.number;
  }

  std::vector<Entry> heap_;
  std::uint64_t number_ = 0;
};

}  // namespace atp::sim
