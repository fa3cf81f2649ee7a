#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "atp/base/time.h"
#include "atp/core/worker/retransmission_timeout.h"
#include "atp/core/worker/send_window.h"
#include "atp/core/worker/worker_counter.h"

// Loss recovery of one stream (docs/inside/protocol §5, *Loss*): which fragment is repeated, when,
// and in which form. It decides from the window, the clock and the answers, and sends nothing
// itself: the worker asks, sends if the outbox has room, and reports that it did.

namespace atp {

// How a fragment is repeated.
struct Repeat {
  Rung rung = Rung::kPlain;
  std::uint8_t flags = 0;
  bool straight = false;  // to the server's own address, past all switches
  WorkerCounter counter = WorkerCounter::kRepeatsPlain;
};

// The ladder: one rung further than the last time if it climbs, and at least `least`. On the last
// rung, and for floats, an attached worker alternates between the straight path and the tree, since
// either may be dead for good. A detached worker sends every repeat straight.
Repeat next_repeat(const SentFragment& fragment, Rung least, bool attached, bool climbs = true);

// Paces the repeats of a whole window: two, then two per answer (TCP's slow start after a
// time-out). It starts for one of two reasons. If a timer's repeat was answered, it ends as soon as
// a fragment that was not repeated is answered (F-RTO: nothing more was lost). If the path changed
// (detached, attached, joined again), it repeats everything outstanding.
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
  kTimeout,    // repeat the oldest fragment, one rung up
  kProbe,      // repeat the oldest unchanged: no answer follows that could show its loss
  kOvertaken,  // repeat those of next_overtaken(): too late to be reordered
  kFollow,     // repeat those outstanding at the last time-out: next_paced()
};

class LossRecovery {
 public:
  // When to call on_timer().
  Instant due() const { return std::min({timer_, probe_, overtaken_, follow_}); }
  // Call this when the first fragment is in flight.
  void start_timer(Instant now, RetransmissionTimeout& clock);
  TimerAction on_timer(Instant now, const SendWindow& window, RetransmissionTimeout& clock);

  // The PARAMETER of a fragment has arrived; `answered` is a copy of its entry in the window.
  // Returns whether that shows another loss: one more fragment needed a paced repeat.
  bool on_answer(Instant now, const SentFragment& answered, const SendWindow& window,
                 RetransmissionTimeout& clock);
  // The oldest fragment that three later answers have overtaken and that is too late for mere
  // reordering: it was lost, perhaps with its whole train.
  static std::optional<std::uint64_t> next_overtaken(Instant now, SendWindow& window,
                                                     const RetransmissionTimeout& clock) {
    const auto overtaken = window.next_overtaken();
    return overtaken && is_late(now, window.at(*overtaken), clock) ? overtaken : std::nullopt;
  }
  // The paper's rule instead, asked once per answer: whether the latest three in a row were to
  // other fragments than the oldest, which is then lost.
  bool oldest_is_missed(const SendWindow& window) {
    others_ = window.base() == oldest_ ? others_ + 1 : 0;
    oldest_ = window.base();
    return others_ == SendWindow::kLaterAnswers;
  }
  // Sets the timer to when the next one will be that late, in case no answer comes before.
  void await_overtaken(Instant now, SendWindow& window, const RetransmissionTimeout& clock) {
    const auto overtaken = window.next_overtaken();
    overtaken_ = kNever;
    if (!overtaken) return;
    const Instant late = window.at(*overtaken).last_sent + clock.reordering_ends();
    overtaken_ = std::max(late, now + kBetweenBatches);
  }
  // Whether a NACK may have crossed the fragment on its way: when queues are full, the server asks
  // for what is still on its way, and repeats would make the queues longer.
  static bool may_be_under_way(Instant now, const SentFragment& fragment,
                               const RetransmissionTimeout& clock) {
    return !is_late(now, fragment, clock);
  }
  // The oldest fragment, if its early repeat must have been lost too.
  static std::optional<std::uint64_t> lost_again(Instant now, const SendWindow& window,
                                                 const RetransmissionTimeout& clock) {
    if (window.idle()) return std::nullopt;
    const SentFragment& oldest = window.at(window.base());
    const bool lost = oldest.repeated_early && now - oldest.last_sent >= clock.rto() &&
                      is_late(now, oldest, clock);
    return lost ? std::optional(window.base()) : std::nullopt;
  }

  // The path to the server has changed: repeats everything outstanding.
  void repeat_all(const SendWindow& window);
  // The next fragment that the pacer lets go now, if any; call repeated_paced() after sending it.
  bool paces() const { return pacer_.may_repeat(); }
  std::optional<std::uint64_t> next_paced(SendWindow& window);
  void repeated_paced() { pacer_.repeated(); }

  void stop();

  bool operator==(const LossRecovery&) const = default;

 private:
  // Whether it has been unanswered for longer than reordering explains.
  static bool is_late(Instant now, const SentFragment& fragment,
                      const RetransmissionTimeout& clock) {
    return now - fragment.last_sent >= clock.reordering_ends();
  }
  void start_probe(Instant now, RetransmissionTimeout& clock);
  void await_followers(Instant now, const SentFragment& answered, const SendWindow& window,
                       const RetransmissionTimeout& clock);

  // The pause between repeats that no answer triggers.
  static constexpr Duration kBetweenBatches = std::chrono::milliseconds(1);

  RepeatPacer pacer_;
  Instant timer_ = kNever;              // repeats the oldest fragment
  Instant probe_ = kNever;              // repeats it unchanged, before that
  Instant overtaken_ = kNever;          // repeats overtaken fragments
  Instant follow_ = kNever;             // repeats the others after an answered time-out
  unsigned firings_ = 0;                // of timer_, since the last answer
  unsigned probes_ = 0;                 // since the last answer
  std::uint64_t oldest_ = 0;            // at the last answer, for oldest_is_missed()
  std::uint64_t others_ = 0;            // answers since then
  std::uint64_t timed_out_before_ = 0;  // lower sequences were in flight when it last fired
};

}  // namespace atp
