// Decides how a stream reacts to each timer and each answer; worker_send.cc sends the repeats.
#include "atp/core/worker/loss_recovery.h"

namespace atp {

Repeat next_repeat(const SentFragment& fragment, Rung least, bool attached, bool climbs) {
  Repeat repeat;
  repeat.rung = std::max(least, climbs ? next_rung(fragment.rung) : fragment.rung);
  if (fragment.float_mode) {
    repeat.flags = ATP_FLAG_FLOAT;
    repeat.counter = WorkerCounter::kRepeatsFloat;
  } else if (repeat.rung == Rung::kDirect) {
    repeat.flags = ATP_FLAG_RESEND;
    repeat.counter = WorkerCounter::kRepeatsDirect;
  } else if (repeat.rung == Rung::kResend) {
    repeat.flags = ATP_FLAG_RESEND;
    repeat.counter = WorkerCounter::kRepeatsResend;
  }
  const bool direct = repeat.rung == Rung::kDirect || fragment.float_mode || !attached;
  if (direct) repeat.flags |= ATP_FLAG_DIRECT;
  repeat.straight = direct && !(attached && fragment.went_straight);
  return repeat;
}

void LossRecovery::start_timer(Instant now, RetransmissionTimeout& clock) {
  timer_ = now + clock.backed_off(firings_);
  probes_ = 0;
  start_probe(now, clock);
}

// No probe after a time-out: the network is then slower than the estimate.
void LossRecovery::start_probe(Instant now, RetransmissionTimeout& clock) {
  const auto wait = firings_ == 0 ? clock.probe_after(now, probes_) : std::nullopt;
  probe_ = wait ? now + *wait : kNever;
}

TimerAction LossRecovery::on_timer(Instant now, const SendWindow& window,
                                   RetransmissionTimeout& clock) {
  if (now >= follow_) {
    follow_ = kNever;
    // Everything is being repeated already.
    if (pacer_.paced_all()) return TimerAction::kFollow;
    pacer_.start(window.base(), timed_out_before_, RepeatPacer::Extent::kUntilUnrepeatedAnswer);
    return TimerAction::kFollow;
  }
  if (now >= overtaken_) {
    overtaken_ = kNever;
    return TimerAction::kOvertaken;
  }
  if (now >= probe_) {
    timed_out_before_ = window.next();
    ++probes_;
    start_probe(now, clock);
    return TimerAction::kProbe;
  }
  timed_out_before_ = window.next();
  ++firings_;
  start_timer(now, clock);
  return TimerAction::kTimeout;
}

bool LossRecovery::on_answer(Instant now, const SentFragment& answered, const SendWindow& window,
                             RetransmissionTimeout& clock) {
  firings_ = 0;
  const bool repeated = answered.rung != Rung::kNone;
  // An answer to a paced repeat shows a loss; the answers of a slow peer are to first
  // transmissions.
  const bool shows_loss = repeated && pacer_.active() && !pacer_.paced_all();
  pacer_.answered(repeated);
  await_followers(now, answered, window, clock);
  if (window.idle()) {
    timer_ = probe_ = overtaken_ = kNever;
  } else {
    start_timer(now, clock);
  }
  return shows_loss;
}

// After an answered time-out the other outstanding fragments are repeated too, unless a fragment
// that was not repeated is answered within a round trip: that shows that the timer fired too early
// and nothing was lost (F-RTO).
void LossRecovery::await_followers(Instant now, const SentFragment& answered,
                                   const SendWindow& window, const RetransmissionTimeout& clock) {
  if (answered.rung == Rung::kNone || window.idle()) {
    follow_ = kNever;
  } else if (answered.by_timer && !pacer_.active() && follow_ == kNever) {
    follow_ = now + clock.reordering_ends();
  }
}

void LossRecovery::repeat_all(const SendWindow& window) {
  pacer_.start(window.base(), window.next(), RepeatPacer::Extent::kAll);
}

std::optional<std::uint64_t> LossRecovery::next_paced(SendWindow& window) {
  for (; pacer_.may_repeat(); pacer_.skip()) {
    const std::uint64_t sequence = pacer_.cursor();
    if (!window.in_flight(sequence)) continue;
    // On a new path each fragment starts on the first rung again.
    if (pacer_.paced_all()) window.at(sequence).rung = Rung::kNone;
    return sequence;
  }
  return std::nullopt;
}

void LossRecovery::stop() {
  timer_ = probe_ = overtaken_ = follow_ = kNever;
  pacer_.stop();
}

}  // namespace atp
