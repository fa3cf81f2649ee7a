#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "atp/base/time.h"
#include "atp/wire/endpoint.h"
#include "atp/wire/status.h"

// Paces what a switch or a server says to senders that no membership vouches for (unknown job,
// versions, refusals), since anybody can forge a source address (docs/protocol.md §2, *Answers*):
//
//  * an answer is never larger than the packet that caused it;
//  * the same answer goes to one endpoint at most once in a pause;
//  * an address, whatever its ports and jobs, gets kAddressBurst answers at once and then one in
//    each pause;
//  * all together get kTotalBurst at once and then kTotalPerPause in each pause.
//
// The memory is a fixed table whose slots are picked by a seeded hash of the address (of IPv6 the
// network, /64), so a stranger fills its own slot and cannot choose another's. Whoever goes
// unanswered asks again, as its packets are repeated anyway.

namespace atp {

class AnswerPacer {
 public:
  static constexpr int kAddressBurst = 64;
  static constexpr int kTotalBurst = 4096;
  static constexpr int kTotalPerPause = 100;

  AnswerPacer(Duration pause, std::uint64_t seed);

  // May this STATUS of so many bytes answer a packet of `cause_bytes`? If so, it counts as said.
  bool allow(Instant now, const Endpoint& to, std::size_t cause_bytes, std::size_t answer_bytes,
             const StatusMessage& answer);

  bool operator==(const AnswerPacer&) const = default;

 private:
  // So many at once, and then one in each interval: a moment that runs ahead of the clock.
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
    std::uint64_t what = 0;  // a hash of the answer and of whom it went to
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
