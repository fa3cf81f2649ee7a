#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "atp/base/time.h"
#include "atp/wire/endpoint.h"
#include "atp/wire/status.h"

// Limits the rate of answers from a switch or a server to senders that are not members (unknown
// job, versions, refusals), since anybody can forge a source address (docs/inside/protocol §2,
// *Answers*):
//
//  * an answer is never larger than the packet that caused it;
//  * the same answer goes to one endpoint at most once per pause;
//  * one address, whatever its ports and jobs, gets a burst of kAddressBurst answers, and then one
//    per pause;
//  * all addresses together get a burst of kTotalBurst, and then kTotalPerPause per pause.
//
// Only the first rule holds for an answer that takes back what a child switch has noted: withheld,
// it would leave the switch with a rank that nobody else knows.
//
// What was sent is kept in a fixed table, indexed by a seeded hash of the address (for IPv6, of its
// /64 network). So a flood from one address fills only that address's slot, and nobody can choose
// whose slot it shares. A sender whose answer was withheld repeats its packet, and gets an answer
// later.

namespace atp {

class AnswerPacer {
 public:
  static constexpr int kAddressBurst = 64;
  static constexpr int kTotalBurst = 4096;
  static constexpr int kTotalPerPause = 100;

  AnswerPacer(Duration pause, std::uint64_t seed);

  // How the receiver stands to this node.
  enum class To : std::uint8_t { kAnybody, kChild };

  // Whether this STATUS of `answer_bytes` may answer a packet of `cause_bytes`; if so, counts it as
  // sent.
  bool allow(Instant now, const Endpoint& to, std::size_t cause_bytes, std::size_t answer_bytes,
             const StatusMessage& answer, To receiver = To::kAnybody);

  bool operator==(const AnswerPacer&) const = default;

 private:
  // A burst, and then one per interval: stored as a time that runs ahead of the clock.
  class Allowance {
   public:
    bool has(Instant now, Duration interval, int burst) const {
      return used_until_ <= now + interval * (burst - 1);
    }
    void take(Instant now, Duration interval) {
      used_until_ = (used_until_ < now ? now : used_until_) + interval;
    }
    bool operator==(const Allowance&) const = default;

   private:
    Instant used_until_ = Instant::min();
  };
  struct Said {
    std::uint64_t what = 0;  // a hash of the answer and its receiver
    Instant at = Instant::min();
    bool operator==(const Said&) const = default;
  };
  static constexpr std::size_t kSlots = 1024;

  Duration pause_;
  std::uint64_t seed_;
  Allowance total_;
  std::array<Allowance, kSlots> of_address_{};
  std::array<Said, kSlots> said_{};
};

}  // namespace atp
