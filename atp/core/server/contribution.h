#pragma once

#include <cstdint>

#include "atp/core/server/fragment.h"

// What a GRADIENT means for the fragment that it names (docs/protocol.md §6), decided from the
// fragment's state and the packet's header alone, never from values: a pure function, so that the
// whole table can be read and tested in one place.
//
// The rule behind it: a sum holds each rank at most once (§7.1). Two sums may be added only if
// their ranks are disjoint; one may take the place of another only if it holds strictly more;
// anything else is dropped, and the ranks still missing are asked for what no switch may merge.

namespace atp {

enum class Contribution : std::uint8_t {
  kFirst,           // the first values: store them
  kAdd,             // disjoint ranks
  kReplace,         // strictly more ranks, all of those stored among them
  kDuplicate,       // its ranks are in already
  kOverlap,         // some are, some are not
  kComplete,        // the fragment is complete: repeat its PARAMETER
  kOtherOperation,  // another collective of the same stream and sequence (H31)
  kOtherShape,      // the same collective, but another kind or another number of values
  kFloatsFromTheStart,  // the first of a fragment that is never summed as integers
  kIntegerTooLate,  // floats were asked for: ask again
  kFloatTooEarly,   // floats were not asked for (H12)
  kFloatsOfMany,    // nobody may add floats on the way
  kFloatWaits,      // until a slot is free
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
