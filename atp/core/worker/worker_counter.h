#pragma once

#include <cstdint>
#include <string_view>

#include "atp/base/counters.h"
#include "atp/wire/packet_view.h"

// Everything that a worker counts.

namespace atp {

enum class WorkerCounter : std::uint8_t {
  kGradientsSent,      // first transmissions
  kGradientBytesSent,  // of all GRADIENTs, UDP payload
  kGradientsDirect,    // first transmissions straight to the server
  kRepeatsPlain,
  kRepeatsResend,
  kRepeatsDirect,
  kRepeatsFloat,
  kProactiveFragments,       // kept from the switches as OverflowPolicy::kProactive wants
  kProactiveFalsePositives,  // of these, those whose sum would have fitted (paper Table 1)
  kTimeouts,                 // of streams
  kProbes,                   // of the oldest fragment, before the time-out
  kLossesInferred,           // three later PARAMETERs
  kWindowCutsEcn,
  kWindowCutsLoss,
  kParametersReceived,
  kParameterBytesReceived,
  kParametersFloat,
  kParametersDuplicate,  // of fragments answered already
  kParametersCollided,
  kParametersEcn,
  kNacksReceived,
  kWaitingForReceived,
  kJoinsSent,
  kJoinsAnswered,
  kUnknownJobReceived,
  kStatusIgnored,    // of what has ended, is known, or concerns switches alone
  kFlushesReceived,  // meant for switches; the last one delivers it all the same
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
