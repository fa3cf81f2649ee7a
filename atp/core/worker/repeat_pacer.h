#pragma once

#include <cstdint>

// Repeats of a whole window, paced: two, then two for each answer (docs/protocol.md §5, *Loss*;
// TCP's slow start after a time-out). Two occasions start it: a timer's repeat was answered, and
// then it ends as soon as a fragment is answered that was not repeated (F-RTO: nothing more was
// lost); or the path changed (detached, attached, joined again), and then all that is outstanding
// goes.

namespace atp {

class RepeatPacer {
 public:
  enum class Extent : std::uint8_t { kUntilUnrepeatedAnswer, kAll };

  void start(std::uint64_t from, std::uint64_t until, Extent extent) {
    cursor_ = from;
    until_ = until;
    extent_ = extent;
    credit_ = 2;
  }
  bool active() const { return cursor_ < until_; }
  bool paced_all() const { return active() && extent_ == Extent::kAll; }

  void answered(bool was_repeated) {
    if (!active()) return;
    if (!was_repeated && extent_ == Extent::kUntilUnrepeatedAnswer) {
      stop();
      return;
    }
    credit_ += 2;
  }
  bool may_repeat() const { return active() && credit_ > 0; }
  std::uint64_t cursor() const { return cursor_; }
  void skip() { ++cursor_; }
  void repeated() {
    ++cursor_;
    --credit_;
  }
  void stop() { cursor_ = until_ = 0; }

  bool operator==(const RepeatPacer&) const = default;

 private:
  std::uint64_t cursor_ = 0;
  std::uint64_t until_ = 0;
  std::uint64_t credit_ = 0;
  Extent extent_ = Extent::kAll;
};

}  // namespace atp
