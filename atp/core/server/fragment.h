#pragma once

#include <cstdint>

#include "atp/base/rank_set.h"
#include "atp/base/time.h"

// What the server knows of one fragment, but for its values, which its ring holds. Plain data.

namespace atp {

// A moment before every other.
inline constexpr Instant kLongAgo = Instant::min();

enum class FragmentMode : std::uint8_t {
  kCollecting,         // int32 contributions, until the bitmap is full
  kAwaitingFloatSlot,  // full, but it overflowed; the bitmap stays full until floats are asked for
  kFloat,              // float32 contributions, with a bitmap that began empty
  kComplete,           // values, flags, magnitude and next index are final
};

// Where a stalled fragment is in its cycle of FLUSH (one for each switch level) and NACK.
struct StallState {
  Instant act_at = kNever;
  std::uint8_t flushes = 0;  // sent in this cycle
  std::uint8_t cycles = 0;   // finished, saturating
  bool operator==(const StallState&) const = default;
};

// To which ranks something was repeated lately, so that a burst of duplicates makes one answer.
struct AnswerState {
  RankSet ranks;
  Instant since = kLongAgo;
  bool operator==(const AnswerState&) const = default;
};

struct Fragment {
  std::uint64_t sequence = 0;
  std::uint32_t operation = 0;
  std::uint32_t aggregator_index = 0;
  std::uint32_t next_index = 0;  // once complete
  std::uint32_t magnitude = 0;
  std::uint32_t float_slot = 0;  // in mode kFloat
  std::uint8_t flags = 0;        // COLLISION, ECN, OVERFLOW as collected
  FragmentMode mode = FragmentMode::kCollecting;
  bool in_use = false;  // false: the slot holds a forgotten fragment
  bool named = false;   // a contribution has said which operation it is
  Instant since{};      // its first packet, or when it was found to be overtaken
  RankSet bitmap;
  RankSet disagreeing;  // ranks that came with another operation (H31)
  StallState stall;
  AnswerState answered;

  bool complete() const { return mode == FragmentMode::kComplete; }
  bool operator==(const Fragment&) const = default;
};

// What a message about a fragment says of it.
struct FragmentName {
  std::uint16_t stream = 0;  // as on the wire
  std::uint64_t sequence = 0;
  std::uint32_t operation = 0;
  std::uint32_t aggregator_index = 0;
};

}  // namespace atp
