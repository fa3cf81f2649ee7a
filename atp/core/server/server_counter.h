#pragma once

#include <cstdint>
#include <string_view>

#include "atp/wire/packet_view.h"
#include "atp/wire/status.h"

// Everything that a parameter server counts. Each dropped packet increments exactly one of the
// drop_* counters (docs/inside/protocol §7.4).

namespace atp {

enum class ServerCounter : std::uint8_t {
  kPacketsReceived,
  kBytesReceived,          // all UDP payloads
  kGradientsReceived,      // well-formed ones
  kGradientBytesReceived,  // their UDP payloads
  kJoins,
  kJoinsUnproven,  // answered by STATUS prove
  kLeaves,
  kQuestions,     // *are you there*
  kDescriptions,  // of operations that wait
  kUnreachable,   // ICMP errors about packets sent

  kJobsMade,
  kJobsEnded,
  kJobsFailed,
  kRanksLost,

  kFragmentsCompleted,
  kFragmentsCompletedByOnePacket,  // the first packet had all ranks: summed by the switches alone
  // In no more packets than the server has neighbours: the switches have added all they could.
  kFragmentsCompletedInLeastPackets,
  kFragmentsCompletedByServer,  // the server had to add some of it
  kFragmentsCompletedFloat,
  kFragmentsWaitedForFloatSlot,

  kParametersSent,  // datagrams, including repeats
  kParametersRepeated,
  kNacks,
  kFlushes,
  kJoinAcks,

  // In the order of StatusCode.
  kStatusWaitingFor,
  kStatusOperationMismatch,
  kStatusRankTaken,
  kStatusUnknownJob,
  kStatusVersions,
  kStatusRefused,
  kStatusLeaseEnded,
  kStatusDetached,
  kStatusServerRestarted,
  kStatusLeft,
  kStatusAreYouThere,
  kStatusHere,
  kStatusOperation,
  kStatusProve,

  kStatusWithheld,  // answers that the pacer withheld

  // In the order of ParseError.
  kDropTooShort,
  kDropUnknownVersion,
  kDropUnknownType,
  kDropUnknownFlags,
  kDropUnknownKind,
  kDropBadBitmapWidth,
  kDropBadValueCount,
  kDropBadLength,

  kDropBadBody,         // a control body that is invalid for its type
  kDropUnexpectedType,  // a type that only servers or switches send
  kDropUnknownJob,
  kDropForeignIncarnation,
  kDropUnknownStream,
  kDropJoining,           // a GRADIENT before all ranks have joined
  kDropWrongBitmapWidth,  // not the job's
  kDropWrongValueCount,   // more than the agreed K carries
  kDropForeignRanks,      // no rank, or one that the job does not have
  kDropWrongSource,       // ranks that are neither behind the sender nor the sender itself
  kDropNotAwaited,        // the description of an operation that does not wait
  kDropPastSequence,
  kDropFutureSequence,
  kDropWrongOperation,
  kDropWrongShape,  // not the kind or the length of the fragment's other contributions
  kDropDuplicate,   // the ranks are in the sum already
  kDropOverlap,     // some ranks are in the sum already, others are not
  kDropComplete,    // the fragment is complete: at most its PARAMETER is repeated
  kDropFloatInIntegerMode,
  kDropIntegerInFloatMode,
  kDropFloatOfSeveralRanks,
  kDropFloatWaits,  // no free slot; the server asks again once there is one
  kDropBadRank,     // JOIN or LEAVE of not exactly one rank
  kDropRefused,     // JOIN
  kDropKey,         // a JOIN whose tag is not accepted
  kDropRankTaken,
  kDropRankGone,    // JOIN of a rank that was lost or has left
  kDropForgotten,   // JOIN of a member of a job that the server has forgotten
  kDropWrongNonce,  // LEAVE
  kCount,
};

// The public name, in the style of Prometheus and without a prefix: fragments_completed.
std::string_view to_string(ServerCounter counter);

ServerCounter counter_of(StatusCode code);
ServerCounter counter_of(ParseError error);

}  // namespace atp
