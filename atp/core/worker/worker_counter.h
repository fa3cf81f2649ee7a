#pragma once

#include <cstdint>
#include <string_view>

#include "atp/base/counters.h"
#include "atp/wire/packet_view.h"

// Everything that a worker counts.

namespace atp {

enum class WorkerCounter : std::uint8_t {
  kGradientsSent,      // first transmissions
  kGradientBytesSent,  // UDP payload of all GRADIENTs
  kRepeatBytesSent,    // UDP payload of those that are repeats
  kGradientsDirect,    // first transmissions straight to the server
  kRepeatsPlain,
  kRepeatsResend,
  kRepeatsDirect,
  kRepeatsFloat,
  kProactiveFragments,       // sent past the switches by OverflowPolicy::kProactive
  kProactiveFalsePositives,  // those of them whose sum would have fitted (paper Table 1)
  kTimeouts,                 // of streams
  kProbes,                   // of the oldest fragment, before the time-out
  kLossesInferred,           // from three later PARAMETERs
  kWindowCutsEcn,
  kWindowCutsLoss,
  kRoomCuts,  // because of collisions
  kParametersReceived,
  kParameterBytesReceived,
  kParametersFloat,
  kParametersDuplicate,  // of fragments already answered
  kParametersCollided,
  kParametersEcn,
  kNacksReceived,
  kNacksEarly,  // ignored: the fragment may still be on its way
  kWaitingForReceived,
  kDescriptionsSent,  // of operations that wait, to the server
  kJoinsSent,
  kJoinsAnswered,
  kUnknownJobReceived,
  kProveReceived,
  kStatusIgnored,    // about what is over or already known, or for switches only
  kFlushesReceived,  // for switches only, but the last switch forwards them too
  kDetachments,
  kReturns,
  kUnreachable,  // ICMP errors
  kOperationsCompleted,
  kOperationsFailed,
  kDropTooShort,
  kDropUnknownVersion,
  kDropUnknownType,
  kDropUnknownFlags,
  kDropUnknownKind,
  kDropBadBitmapWidth,
  kDropBadValueCount,
  kDropBadLength,
  kDropBadBody,
  kDropWrongSource,     // neither the parent nor the server
  kDropWrongDirection,  // a type that only travels upward
  kDropWrongJob,
  kDropNotAddressed,
  kDropWrongStream,
  kDropWrongNonce,
  kDropUnsentSequence,
  kDropWrongOperation,
  kDropWrongShape,  // not the kind or the length of its fragment
  kDropNotJoined,
  kCount,
};

std::string_view to_string(WorkerCounter counter);

// The counter under which a packet that parse_packet() refuses is dropped.
constexpr WorkerCounter worker_counter_of(ParseError error) {
  return static_cast<WorkerCounter>(static_cast<int>(WorkerCounter::kDropTooShort) +
                                    static_cast<int>(error));
}
static_assert(worker_counter_of(ParseError::kTooShort) == WorkerCounter::kDropTooShort);
static_assert(worker_counter_of(ParseError::kBadLength) == WorkerCounter::kDropBadLength);

}  // namespace atp
