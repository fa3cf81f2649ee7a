#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "atp/base/time.h"

// The simulator's own time, and the order of its events.

namespace atp::sim {

// Integer picoseconds since the run began. A byte at 100 Gbit/s takes 80 of them, so sums of
// transmission times are exact; nanoseconds would round a small packet's time by several per cent.
// The nodes of the core see nanoseconds, rounded down.
using Picoseconds = std::int64_t;

inline constexpr Picoseconds kNeverPs = std::numeric_limits<Picoseconds>::max();
inline constexpr Picoseconds kPsPerNs = 1000;

constexpr Picoseconds picoseconds(Duration length) {
  return length.count() >= kNeverPs / kPsPerNs ? kNeverPs : length.count() * kPsPerNs;
}
constexpr Picoseconds picoseconds(Instant when) { return picoseconds(when.time_since_epoch()); }
constexpr Instant instant(Picoseconds when) { return Instant{Duration{when / kPsPerNs}}; }

// Events in the order of their times, and at one instant in the order of their numbers, so that the
// same seed gives the same run on every machine. It is a binary heap of small entries. When a
// link's first packet has arrived, its next one takes that place (replace_first), which costs half
// as much as removing one entry and inserting another.
template <class Event>
class EventQueue {
 public:
  struct Entry {
    Picoseconds when;
    std::uint64_t number;
    Event event;
  };

  std::uint64_t take_number() { return number_++; }
  void push(Picoseconds when, Event event) { push({when, take_number(), event}); }
  void push(const Entry& entry) {
    heap_.push_back(entry);
    std::push_heap(heap_.begin(), heap_.end(), later);
  }

  bool empty() const { return heap_.empty(); }
  Picoseconds next() const { return heap_.empty() ? kNeverPs : heap_.front().when; }

  // The queue must not be empty.
  const Entry& first() const { return heap_.front(); }
  void pop() {
    std::pop_heap(heap_.begin(), heap_.end(), later);
    heap_.pop_back();
  }
  void replace_first(const Entry& entry) {
    std::size_t hole = 0;
    const std::size_t size = heap_.size();
    for (std::size_t child = 1; child < size; child = 2 * hole + 1) {
      if (child + 1 < size && later(heap_[child], heap_[child + 1])) ++child;
      if (!later(entry, heap_[child])) break;
      heap_[hole] = heap_[child];
      hole = child;
    }
    heap_[hole] = entry;
  }

 private:
  static bool later(const Entry& a, const Entry& b) {
    return a.when != b.when ? a.when > b.when : a.number > b.number;
  }

  std::vector<Entry> heap_;
  std::uint64_t number_ = 0;
};

}  // namespace atp::sim
