// The public names of a server's counters.
#include "atp/core/server/server_counter.h"

namespace atp {

std::string_view to_string(ServerCounter counter) {
  switch (counter) {
    case ServerCounter::kPacketsReceived: return "packets_received";
    case ServerCounter::kBytesReceived: return "bytes_received";
    case ServerCounter::kGradientsReceived: return "gradients_received";
    case ServerCounter::kGradientBytesReceived: return "gradient_bytes_received";
    case ServerCounter::kJoins: return "joins";
    case ServerCounter::kLeaves: return "leaves";
    case ServerCounter::kQuestions: return "questions";
    case ServerCounter::kUnreachable: return "unreachable";
    case ServerCounter::kJobsMade: return "jobs_made";
    case ServerCounter::kJobsEnded: return "jobs_ended";
    case ServerCounter::kRanksLost: return "ranks_lost";
    case ServerCounter::kFragmentsCompleted: return "fragments_completed";
    case ServerCounter::kFragmentsCompletedByOnePacket: return "fragments_completed_by_one_packet";
    case ServerCounter::kFragmentsCompletedInLeastPackets:
      return "fragments_completed_in_least_packets";
    case ServerCounter::kFragmentsCompletedByServer: return "fragments_completed_by_server";
    case ServerCounter::kFragmentsCompletedFloat: return "fragments_completed_float";
    case ServerCounter::kFragmentsWaitedForFloatSlot: return "fragments_waited_for_float_slot";
    case ServerCounter::kParametersSent: return "parameters_sent";
    case ServerCounter::kParametersRepeated: return "parameters_repeated";
    case ServerCounter::kNacks: return "nacks";
    case ServerCounter::kFlushes: return "flushes";
    case ServerCounter::kJoinAcks: return "join_acks";
    case ServerCounter::kStatusWaitingFor: return "status_waiting_for";
    case ServerCounter::kStatusOperationMismatch: return "status_operation_mismatch";
    case ServerCounter::kStatusRankTaken: return "status_rank_taken";
    case ServerCounter::kStatusUnknownJob: return "status_unknown_job";
    case ServerCounter::kStatusVersions: return "status_versions";
    case ServerCounter::kStatusRefused: return "status_refused";
    case ServerCounter::kStatusLeaseEnded: return "status_lease_ended";
    case ServerCounter::kStatusDetached: return "status_detached";
    case ServerCounter::kStatusServerRestarted: return "status_server_restarted";
    case ServerCounter::kStatusLeft: return "status_left";
    case ServerCounter::kStatusAreYouThere: return "status_are_you_there";
    case ServerCounter::kStatusHere: return "status_here";
    case ServerCounter::kStatusWithheld: return "status_withheld";
    case ServerCounter::kDropTooShort: return "drop_too_short";
    case ServerCounter::kDropUnknownVersion: return "drop_unknown_version";
    case ServerCounter::kDropUnknownType: return "drop_unknown_type";
    case ServerCounter::kDropUnknownFlags: return "drop_unknown_flags";
    case ServerCounter::kDropUnknownKind: return "drop_unknown_kind";
    case ServerCounter::kDropBadBitmapWidth: return "drop_bad_bitmap_width";
    case ServerCounter::kDropBadValueCount: return "drop_bad_value_count";
    case ServerCounter::kDropBadLength: return "drop_bad_length";
    case ServerCounter::kDropBadBody: return "drop_bad_body";
    case ServerCounter::kDropUnexpectedType: return "drop_unexpected_type";
    case ServerCounter::kDropUnknownJob: return "drop_unknown_job";
    case ServerCounter::kDropForeignIncarnation: return "drop_foreign_incarnation";
    case ServerCounter::kDropUnknownStream: return "drop_unknown_stream";
    case ServerCounter::kDropJoining: return "drop_joining";
    case ServerCounter::kDropWrongBitmapWidth: return "drop_wrong_bitmap_width";
    case ServerCounter::kDropWrongValueCount: return "drop_wrong_value_count";
    case ServerCounter::kDropForeignRanks: return "drop_foreign_ranks";
    case ServerCounter::kDropWrongSource: return "drop_wrong_source";
    case ServerCounter::kDropPastSequence: return "drop_past_sequence";
    case ServerCounter::kDropFutureSequence: return "drop_future_sequence";
    case ServerCounter::kDropWrongOperation: return "drop_wrong_operation";
    case ServerCounter::kDropWrongShape: return "drop_wrong_shape";
    case ServerCounter::kDropDuplicate: return "drop_duplicate";
    case ServerCounter::kDropOverlap: return "drop_overlap";
    case ServerCounter::kDropComplete: return "drop_complete";
    case ServerCounter::kDropFloatInIntegerMode: return "drop_float_in_integer_mode";
    case ServerCounter::kDropIntegerInFloatMode: return "drop_integer_in_float_mode";
    case ServerCounter::kDropFloatOfSeveralRanks: return "drop_float_of_several_ranks";
    case ServerCounter::kDropFloatWaits: return "drop_float_waits";
    case ServerCounter::kDropBadRank: return "drop_bad_rank";
    case ServerCounter::kDropRefused: return "drop_refused";
    case ServerCounter::kDropRankTaken: return "drop_rank_taken";
    case ServerCounter::kDropRankGone: return "drop_rank_gone";
    case ServerCounter::kDropForgotten: return "drop_forgotten";
    case ServerCounter::kDropWrongNonce: return "drop_wrong_nonce";
    default: return "unknown";
  }
}

ServerCounter counter_of(StatusCode code) {
  return static_cast<ServerCounter>(static_cast<unsigned>(ServerCounter::kStatusWaitingFor) +
                                    static_cast<unsigned>(code));
}

ServerCounter counter_of(ParseError error) {
  return static_cast<ServerCounter>(static_cast<unsigned>(ServerCounter::kDropTooShort) +
                                    static_cast<unsigned>(error));
}

}  // namespace atp
