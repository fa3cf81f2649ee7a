#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "atp/base/time.h"
#include "atp/wire/endpoint.h"
#include "atp/wire/packet_view.h"
#include "atp/wire/status.h"

// Paces what a switch or a server says unasked (unknown job, versions, refusals), so that a flood
// of bad packets is not answered by a flood of STATUS: at most one answer to a sender about a job,
// a rank and a reason in each answer_pause. The memory is a fixed table of times and the key only
// picks a slot: two keys that share one share its allowance too, which bounds all answers together.
// Whoever goes unanswered asks again, as its packets are repeated anyway.

namespace atp {

class AnswerPacer {
 public:
  AnswerPacer(Duration pause, std::uint64_t seed);

  // May this be said now? If so, it counts as said.
  bool allow(Instant now, const Endpoint& to, const JobKey& job, const StatusMessage& answer);

  bool operator==(const AnswerPacer&) const = default;

 private:
  static constexpr std::size_t kSlots = 1024;

  Duration pause_;
  std::uint64_t seed_;
  std::array<Instant, kSlots> last_;
};

}  // namespace atp
