#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <utility>

namespace atp {

// The earliest of the ends that the operations in flight ask for. They start and end in the same
// order, so each costs a constant number of comparisons on average: an end that a later operation
// precedes can never again be the earliest.
template <class Time>
class EarliestEnd {
 public:
  // For the newest operation; one without an end counts, too.
  void add(const std::optional<Time>& end) {
    if (end) {
      while (!ends_.empty() && *end < ends_.back().second) ends_.pop_back();
      ends_.emplace_back(added_, *end);
    }
    ++added_;
  }
  void remove_oldest() {
    if (!ends_.empty() && ends_.front().first == removed_) ends_.pop_front();
    ++removed_;
  }
  void clear() {
    ends_.clear();
    removed_ = added_;
  }
  // Nothing: no operation asks for one.
  std::optional<Time> get() const {
    return ends_.empty() ? std::nullopt : std::optional(ends_.front().second);
  }

 private:
  std::uint64_t added_ = 0;
  std::uint64_t removed_ = 0;
  std::deque<std::pair<std::uint64_t, Time>> ends_;  // by operation; both rise
};

}  // namespace atp
