#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "atp/base/check.h"
#include "atp/base/time.h"

// The sequence space of one stream at a worker (docs/inside/protocol §5, *Order*). First
// transmissions go in sequence order, and s only when every sequence ≤ s − Wmax has its PARAMETER.
// So unanswered sequences lie in [base, next) with next − base ≤ Wmax, and one ring of Wmax entries
// holds them.

namespace atp {

// The ladder of a fragment's repeats: plain, then as RESEND, then past all switches.
enum class Rung : std::uint8_t { kNone, kPlain, kResend, kDirect };

constexpr Rung next_rung(Rung rung) {
  return rung == Rung::kDirect ? rung : static_cast<Rung>(static_cast<std::uint8_t>(rung) + 1);
}

// One fragment that was sent.
struct SentFragment {
  Instant first_sent{};
  Instant last_sent{};
  Rung rung = Rung::kNone;  // the rung that its repeats have reached
  bool answered = false;
  bool float_mode = false;      // its values go as floats
  bool exact = false;           // its values go as floats from the start, past all switches
  bool proactive = false;       // sent past the switches because it might overflow
  bool by_timer = false;        // a timer repeated it
  bool repeated_early = false;  // because later ones were answered (TCP's fast retransmit)
  bool went_straight = false;   // the last DIRECT transmission took the straight path
  bool operator==(const SentFragment&) const = default;
};

class SendWindow {
 public:
  // So many answers to others mean that a fragment was lost (paper §3.7).
  static constexpr std::uint64_t kLaterAnswers = 3;

  SendWindow() = default;
  explicit SendWindow(std::uint32_t wmax, std::uint64_t first = 0)
      : ring_(wmax), base_(first), next_(first), end_(first) {}

  std::uint64_t base() const { return base_; }  // the oldest unanswered, if any is in flight
  std::uint64_t next() const { return next_; }  // the next to be sent for the first time
  std::uint64_t end() const { return end_; }    // one past the last that the operations need
  std::uint64_t wmax() const { return ring_.size(); }
  bool idle() const { return base_ == next_; }

  // Adds the sequences of a new operation; returns the first.
  std::uint64_t extend(std::uint64_t fragments) {
    const std::uint64_t first = end_;
    end_ += fragments;
    return first;
  }
  bool may_send() const { return next_ < end_ && next_ - base_ < ring_.size(); }
  std::uint64_t send(Instant now) {
    ATP_CHECK(may_send());
    at(next_) = SentFragment{.first_sent = now, .last_sent = now};
    return next_++;
  }

  bool in_flight(std::uint64_t sequence) const {
    return sequence >= base_ && sequence < next_ && !at(sequence).answered;
  }
  SentFragment& at(std::uint64_t sequence) { return ring_[slot(sequence)]; }
  const SentFragment& at(std::uint64_t sequence) const { return ring_[slot(sequence)]; }

  // The PARAMETER of `sequence`, which must be in flight, has arrived.
  void answer(std::uint64_t sequence) {
    ATP_CHECK(in_flight(sequence));
    at(sequence).answered = true;
    last_answered_ = std::max(last_answered_, sequence);
    if (!at(sequence).exact) last_added_ = std::max(last_added_, sequence);
    ++answered_beyond_;
    while (base_ < next_ && at(base_).answered) {
      ++base_;
      --answered_beyond_;
    }
  }
  // How many fragments are in flight.
  std::uint64_t unanswered() const { return next_ - base_ - answered_beyond_; }
  // How many fragments after the oldest unanswered one are answered.
  std::uint64_t answered_beyond() const { return answered_beyond_; }

  // The oldest unanswered fragment that at least three have overtaken and that was not repeated
  // early (§3.7: three later answers mean a loss). Each is examined once, so calls are cheap. A
  // fragment sent past all switches is faster, so it does not count as overtaking one that a switch
  // must add: a peer that is late with both would look like a loss.
  std::optional<std::uint64_t> next_overtaken() {
    if (answered_beyond_ < kLaterAnswers) return std::nullopt;
    for (scan_ = std::max(scan_, base_); scan_ + kLaterAnswers <= last_answered_; ++scan_) {
      const SentFragment& fragment = at(scan_);
      if (fragment.answered || fragment.repeated_early) continue;
      if (!fragment.exact && scan_ + kLaterAnswers > last_added_) break;
      return scan_;
    }
    return std::nullopt;
  }

  bool operator==(const SendWindow&) const = default;

 private:
  std::size_t slot(std::uint64_t sequence) const { return sequence & (ring_.size() - 1); }

  std::vector<SentFragment> ring_;  // Wmax, a power of two
  std::uint64_t base_ = 0;
  std::uint64_t next_ = 0;
  std::uint64_t end_ = 0;
  std::uint64_t answered_beyond_ = 0;
  std::uint64_t last_answered_ = 0;
  std::uint64_t last_added_ = 0;  // of those that may be added in a switch
  std::uint64_t scan_ = 0;        // everything below was examined
};

}  // namespace atp
