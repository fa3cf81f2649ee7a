#pragma once

#include <cstdint>
#include <string_view>

#include "atp/base/counters.h"
#include "atp/core/dataplane/pipeline.h"
#include "atp/wire/packet_view.h"

// What a switch counts. Every packet that comes raises packets_received, the counter of its type
// if it has one, and one that tells what became of it; each one dropped raises exactly one whose
// name begins with drop_ (docs/protocol.md §7).

namespace atp {

enum class SwitchCounter : std::uint8_t {
  kPacketsReceived,
  kGradientsReceived,
  kParametersReceived,
  kFlushesReceived,
  kNacksReceived,
  kJoinsReceived,
  kJoinAcksReceived,
  kLeavesReceived,
  kStatusesReceived,

  // Gradients that stayed here.
  kGradientsSummed,
  kDuplicates,
  // Sums that left.
  kCompleteSumsSent,
  kPartialSumsSent,      // a RESEND asked
  kFlushedSumsSent,      // a FLUSH asked
  kSweptSumsSent,        // unused for the reclaim time
  kDuplicatesReemitted,  // complete sums, again
  // Gradients that passed as they came.
  kForwardedDirect,
  kForwardedDetached,
  kForwardedBeyondLimit,
  kForwardedShape,
  kForwardedOverlap,
  kForwardedLate,
  kForwardedResend,
  kForwardedAfterCollision,  // others of their fragment, which met another in its aggregator
  kForwardedNoRegion,        // their job has no aggregators here
  kForwardedOverQuota,       // fragments; what comes later of them is forwarded late
  kCollisions,
  kOperationMismatches,

  kEcnMarks,  // of any gradient sent, by the virtual queue of the uplink or our own receive queue

  // What PARAMETERs did on their way.
  kReleases,
  kMarks,
  kReclaims,
  kMulticastCopies,  // copies of downward messages sent to children

  kJoinsRelayed,
  kLeavesRelayed,
  kQuestions,  // *are you there*
  kStatusesSent,
  kStatusesWithheld,  // answers that came too soon after another
  kTreesMade,
  kTreesDropped,
  kLeasesEnded,
  kSweptDiscarded,  // swept with its tree forgotten
  kUnreachable,     // ICMP errors for what this switch sent

  kDropTooShort,
  kDropUnknownVersion,
  kDropUnknownType,
  kDropUnknownFlags,
  kDropUnknownKind,
  kDropBadBitmapWidth,
  kDropBadValueCount,
  kDropBadLength,
  kDropBadBody,
  kDropUnknownJob,
  kDropUnknownChild,
  kDropForeignRanks,
  kDropEmptyBitmap,
  kDropWrongBitmapWidth,
  kDropWrongValueCount,
  kDropNotFromParent,
  kDropNoChildAddressed,
  kDropStraight,   // a JOIN or LEAVE with DIRECT, whose place is at the server
  kDropRefused,    // a JOIN, answered by STATUS refused
  kDropRankTaken,  // a JOIN, answered by STATUS rank taken
  kDropWrongNonce,
  kDropTooManyHops,
  kCount,
};

std::string_view to_string(SwitchCounter counter);

SwitchCounter switch_counter_of(ParseError error);
SwitchCounter switch_counter_of(PacketType type);
SwitchCounter switch_counter_of(atp_reason reason);

}  // namespace atp
