#pragma once

#include <cstdint>

#include "atp/core/server/fragment.h"

// What a GRADIENT means for its fragment (docs/inside/protocol §6), decided from the fragment's
// state and the packet's header alone, never from values. It is a pure function, so that the whole
// table can be read and tested in one place.
//
// The rule behind it: a sum holds each rank at most once (§7.1). Two sums may be added only if
// their ranks are disjoint; one may replace another only if it holds strictly more ranks. Anything
// else is dropped, and the missing ranks are asked for packets that no switch may merge.

namespace atp {

enum class Contribution : std::uint8_t {
  kFirst,               // the first values: store them
  kAdd,                 // disjoint ranks
  kReplace,             // strictly more ranks, including all stored ones
  kDuplicate,           // its ranks are in the sum already
  kOverlap,             // some of its ranks are in the sum, others are not
  kComplete,            // the fragment is complete: repeat its PARAMETER
  kOtherOperation,      // another collective of the same stream and sequence (H31)
  kOtherShape,          // the same collective, but another kind or another number of values
  kFloatsFromTheStart,  // the first of a fragment that is never summed as integers
  kIntegerTooLate,      // floats were asked for: ask again
  kFloatTooEarly,       // floats were not asked for (H12)
  kFloatsOfMany,        // floats of several ranks: no switch may add floats
  kFloatWaits,          // no slot is free
};

struct ContributionHeader {
  RankSet ranks;
  std::uint32_t operation = 0;
  std::uint8_t kind = ATP_KIND_SUM_FIXED;
  std::uint16_t value_count = 0;
  bool is_float = false;  // asked for, or from the start
};

Contribution judge(const Fragment& fragment, const ContributionHeader& packet);

}  // namespace atp
