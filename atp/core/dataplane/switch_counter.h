#pragma once

#include <cstdint>
#include <string_view>

#include "atp/base/counters.h"
#include "atp/core/dataplane/pipeline.h"
#include "atp/wire/packet_view.h"

// What a switch counts. Every packet received increments packets_received, the counter of its type
// if there is one, and one for what became of it. A dropped packet increments exactly one counter
// whose name begins with drop_ (docs/inside/protocol §7).

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

  // Gradients that were consumed.
  kGradientsSummed,
  kDuplicates,
  // Sums that left.
  kCompleteSumsSent,
  kPartialSumsSent,      // for a RESEND
  kFlushedSumsSent,      // for a FLUSH
  kSweptSumsSent,        // unused for the reclaim time
  kDuplicatesReemitted,  // complete sums, again
  // Gradients that passed.
  kForwardedDirect,
  kForwardedDetached,
  kForwardedBeyondLimit,
  kForwardedShape,
  kForwardedOverlap,
  kForwardedLate,
  kForwardedResend,
  kForwardedAfterCollision,  // later contributions of a fragment that collided
  kForwardedNoRegion,        // their job has no aggregators here
  kForwardedOverQuota,       // one per fragment; its later contributions count as late
  kCollisions,
  kOperationMismatches,

  kEcnMarks,  // gradients sent with ECN: the uplink's virtual queue, or our receive queue, is long

  // Effects of PARAMETERs.
  kReleases,
  kMarks,
  kReclaims,
  kMulticastCopies,  // copies of downward messages sent to children

  kJoinsRelayed,
  kJoinsUnproven,  // answered by STATUS prove
  kLeavesRelayed,
  kQuestions,  // *are you there*
  kStatusesSent,
  kStatusesWithheld,  // answers that the pacer withheld
  kTreesMade,
  kTreesDropped,
  kLeasesEnded,
  kSweptDiscarded,  // swept sums whose tree was forgotten
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
  kDropStraight,   // a JOIN or LEAVE with DIRECT, which belongs at the server
  kDropRefused,    // a JOIN, answered by STATUS refused
  kDropKey,        // a JOIN whose tag is not accepted; answered likewise
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
