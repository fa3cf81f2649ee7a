#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "atp/base/time.h"
#include "atp/core/worker/retransmission_timeout.h"
#include "atp/core/worker/send_window.h"
#include "atp/core/worker/worker_counter.h"

// Loss recovery of one stream (docs/protocol.md §5, *Loss*): which fragment is repeated, when, and
// in which form. It decides from the window, the clock and what was answered, and sends nothing
// itself: the worker asks, sends if the outbox has room, and says that it did.

namespace atp {

// How a fragment is repeated.
struct Repeat {
  Rung rung = Rung::kPlain;
  std::uint8_t flags = 0;
  bool straight = false;  // to the server's own address, past all switches
  WorkerCounter counter = WorkerCounter::kRepeatsPlain;
};

// The ladder: one step further than the last time if it climbs, or as far as `least`. On its last
// rung, and of floats, an attached worker goes straight and through the tree by turns, as either
// way may be dead for good. Whoever is detached sends every repeat straight.
Repeat next_repeat(const SentFragment& fragment, Rung least, bool attached, bool climbs = true);

// Repeats of a whole window, paced: two, then two for each answer (TCP's slow start after a
// time-out). Two occasions start it: a timer's repeat was answered, and then it ends as soon as a
// fragment is answered that was not repeated (F-RTO: nothing more was lost); or the path changed
// (detached, attached, joined again), and then all that is outstanding goes.
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

// What a stream's timer asks for.
enum class TimerAction : std::uint8_t {
  kTimeout,    // the oldest fragment once more, one rung up
  kProbe,      // the oldest as it was: no answer follows that could show its loss
  kOvertaken,  // those that next_overtaken() has: reordering explains them no more
  kFollow,     // those that were outstanding at the last time-out: next_paced() has them
};

class LossRecovery {
 public:
  // When on_timer() has something to do.
  Instant due() const { return std::min({timer_, probe_, overtaken_, follow_}); }
  // The first fragment is in flight.
  void start_timer(Instant now, RetransmissionTimeout& clock);
  TimerAction on_timer(Instant now, const SendWindow& window, RetransmissionTimeout& clock);

  // `answered`, as it stood in the window until now, has its PARAMETER. Returns whether that shows
  // a loss: the repeat of a timer was needed for one more.
  bool on_answer(Instant now, const SentFragment& answered, const SendWindow& window,
                 RetransmissionTimeout& clock);
  // Three later answers mean a loss, of a whole train perhaps: the oldest that they have overtaken
  // and that is late for more than reordering.
  static std::optional<std::uint64_t> next_overtaken(Instant now, SendWindow& window,
                                                     const RetransmissionTimeout& clock) {
    const auto overtaken = window.next_overtaken();
    return overtaken && is_late(now, window.at(*overtaken), clock) ? overtaken : std::nullopt;
  }
  // When the next of them is that late, if no answer comes that would ask before.
  void await_overtaken(Instant now, SendWindow& window, const RetransmissionTimeout& clock) {
    const auto overtaken = window.next_overtaken();
    overtaken_ = kNever;
    if (!overtaken) return;
    const Instant late = window.at(*overtaken).last_sent + clock.reordering_ends();
    overtaken_ = std::max(late, now + kBetweenBatches);
  }
  // The oldest fragment, if its repeat for that reason must have been lost too.
  static std::optional<std::uint64_t> lost_again(Instant now, const SendWindow& window,
                                                 const RetransmissionTimeout& clock) {
    if (window.idle()) return std::nullopt;
    const SentFragment& oldest = window.at(window.base());
    const bool lost = oldest.repeated_early && now - oldest.last_sent >= clock.rto() &&
                      is_late(now, oldest, clock);
    return lost ? std::optional(window.base()) : std::nullopt;
  }

  // The way to the server is another one: all that is outstanding goes again.
  void repeat_all(const SendWindow& window);
  // What the pacer has for now, if it is at work; repeated_paced() when it was sent.
  bool paces() const { return pacer_.may_repeat(); }
  std::optional<std::uint64_t> next_paced(SendWindow& window);
  void repeated_paced() { pacer_.repeated(); }

  void stop();

  bool operator==(const LossRecovery&) const = default;

 private:
  // Longer unanswered than reordering explains?
  static bool is_late(Instant now, const SentFragment& fragment,
                      const RetransmissionTimeout& clock) {
    return now - fragment.last_sent >= clock.reordering_ends();
  }
  void start_probe(Instant now, RetransmissionTimeout& clock);
  void await_followers(Instant now, const SentFragment& answered, const SendWindow& window,
                       const RetransmissionTimeout& clock);

  // Of what is repeated without an answer that makes room for it.
  static constexpr Duration kBetweenBatches = std::chrono::milliseconds(1);

  RepeatPacer pacer_;
  Instant timer_ = kNever;              // repeats the oldest fragment
  Instant probe_ = kNever;              // … once more as it was, before
  Instant overtaken_ = kNever;          // repeats what later ones have overtaken
  Instant follow_ = kNever;             // … and then the others outstanding
  unsigned firings_ = 0;                // of the timer, since the last answer
  unsigned probes_ = 0;                 // likewise
  std::uint64_t timed_out_before_ = 0;  // what was in flight when it last fired
};

}  // namespace atp
