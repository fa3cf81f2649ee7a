// The public names of a switch's counters, and which counter each row of the pipeline raises.
#include "atp/core/dataplane/switch_counter.h"

#include "atp/base/check.h"

namespace atp {

std::string_view to_string(SwitchCounter counter) {
  switch (counter) {
    case SwitchCounter::kPacketsReceived: return "packets_received";
    case SwitchCounter::kGradientsReceived: return "gradients_received";
    case SwitchCounter::kParametersReceived: return "parameters_received";
    case SwitchCounter::kFlushesReceived: return "flushes_received";
    case SwitchCounter::kNacksReceived: return "nacks_received";
    case SwitchCounter::kJoinsReceived: return "joins_received";
    case SwitchCounter::kJoinAcksReceived: return "join_acks_received";
    case SwitchCounter::kLeavesReceived: return "leaves_received";
    case SwitchCounter::kStatusesReceived: return "statuses_received";
    case SwitchCounter::kGradientsSummed: return "gradients_summed";
    case SwitchCounter::kDuplicates: return "duplicates";
    case SwitchCounter::kCompleteSumsSent: return "complete_sums_sent";
    case SwitchCounter::kPartialSumsSent: return "partial_sums_sent";
    case SwitchCounter::kFlushedSumsSent: return "flushed_sums_sent";
    case SwitchCounter::kSweptSumsSent: return "swept_sums_sent";
    case SwitchCounter::kDuplicatesReemitted: return "duplicates_reemitted";
    case SwitchCounter::kForwardedDirect: return "forwarded_direct";
    case SwitchCounter::kForwardedDetached: return "forwarded_detached";
    case SwitchCounter::kForwardedBeyondLimit: return "forwarded_beyond_limit";
    case SwitchCounter::kForwardedShape: return "forwarded_shape";
    case SwitchCounter::kForwardedOverlap: return "forwarded_overlap";
    case SwitchCounter::kForwardedLate: return "forwarded_late";
    case SwitchCounter::kForwardedResend: return "forwarded_resend";
    case SwitchCounter::kForwardedAfterCollision: return "forwarded_after_collision";
    case SwitchCounter::kForwardedNoRegion: return "forwarded_no_region";
    case SwitchCounter::kForwardedOverQuota: return "forwarded_over_quota";
    case SwitchCounter::kCollisions: return "collisions";
    case SwitchCounter::kOperationMismatches: return "operation_mismatches";
    case SwitchCounter::kEcnMarks: return "ecn_marks";
    case SwitchCounter::kReleases: return "releases";
    case SwitchCounter::kMarks: return "marks";
    case SwitchCounter::kReclaims: return "reclaims";
    case SwitchCounter::kMulticastCopies: return "multicast_copies";
    case SwitchCounter::kJoinsRelayed: return "joins_relayed";
    case SwitchCounter::kLeavesRelayed: return "leaves_relayed";
    case SwitchCounter::kQuestions: return "questions";
    case SwitchCounter::kStatusesSent: return "statuses_sent";
    case SwitchCounter::kStatusesWithheld: return "statuses_withheld";
    case SwitchCounter::kTreesMade: return "trees_made";
    case SwitchCounter::kTreesDropped: return "trees_dropped";
    case SwitchCounter::kLeasesEnded: return "leases_ended";
    case SwitchCounter::kSweptDiscarded: return "swept_discarded";
    case SwitchCounter::kUnreachable: return "unreachable";
    case SwitchCounter::kDropTooShort: return "drop_too_short";
    case SwitchCounter::kDropUnknownVersion: return "drop_unknown_version";
    case SwitchCounter::kDropUnknownType: return "drop_unknown_type";
    case SwitchCounter::kDropUnknownFlags: return "drop_unknown_flags";
    case SwitchCounter::kDropUnknownKind: return "drop_unknown_kind";
    case SwitchCounter::kDropBadBitmapWidth: return "drop_bad_bitmap_width";
    case SwitchCounter::kDropBadValueCount: return "drop_bad_value_count";
    case SwitchCounter::kDropBadLength: return "drop_bad_length";
    case SwitchCounter::kDropBadBody: return "drop_bad_body";
    case SwitchCounter::kDropUnknownJob: return "drop_unknown_job";
    case SwitchCounter::kDropUnknownChild: return "drop_unknown_child";
    case SwitchCounter::kDropForeignRanks: return "drop_foreign_ranks";
    case SwitchCounter::kDropEmptyBitmap: return "drop_empty_bitmap";
    case SwitchCounter::kDropWrongBitmapWidth: return "drop_wrong_bitmap_width";
    case SwitchCounter::kDropWrongValueCount: return "drop_wrong_value_count";
    case SwitchCounter::kDropNotFromParent: return "drop_not_from_parent";
    case SwitchCounter::kDropNoChildAddressed: return "drop_no_child_addressed";
    case SwitchCounter::kDropStraight: return "drop_straight";
    case SwitchCounter::kDropRefused: return "drop_refused";
    case SwitchCounter::kDropRankTaken: return "drop_rank_taken";
    case SwitchCounter::kDropWrongNonce: return "drop_wrong_nonce";
    case SwitchCounter::kDropTooManyHops: return "drop_too_many_hops";
    case SwitchCounter::kCount: break;
  }
  return "unknown";
}

SwitchCounter switch_counter_of(ParseError error) {
  switch (error) {
    case ParseError::kTooShort: return SwitchCounter::kDropTooShort;
    case ParseError::kUnknownVersion: return SwitchCounter::kDropUnknownVersion;
    case ParseError::kUnknownType: return SwitchCounter::kDropUnknownType;
    case ParseError::kUnknownFlags: return SwitchCounter::kDropUnknownFlags;
    case ParseError::kUnknownKind: return SwitchCounter::kDropUnknownKind;
    case ParseError::kBadBitmapWidth: return SwitchCounter::kDropBadBitmapWidth;
    case ParseError::kBadValueCount: return SwitchCounter::kDropBadValueCount;
    case ParseError::kBadLength: return SwitchCounter::kDropBadLength;
    case ParseError::kCount: break;
  }
  ATP_CHECK(false && "a parse error without a counter");
  return SwitchCounter::kCount;
}

SwitchCounter switch_counter_of(PacketType type) {
  switch (type) {
    case PacketType::kGradient: return SwitchCounter::kGradientsReceived;
    case PacketType::kParameter: return SwitchCounter::kParametersReceived;
    case PacketType::kFlush: return SwitchCounter::kFlushesReceived;
    case PacketType::kNack: return SwitchCounter::kNacksReceived;
    case PacketType::kJoin: return SwitchCounter::kJoinsReceived;
    case PacketType::kJoinAck: return SwitchCounter::kJoinAcksReceived;
    case PacketType::kLeave: return SwitchCounter::kLeavesReceived;
    case PacketType::kStatus: return SwitchCounter::kStatusesReceived;
  }
  ATP_CHECK(false && "a packet type without a counter");
  return SwitchCounter::kCount;
}

SwitchCounter switch_counter_of(atp_reason reason) {
  switch (reason) {
    case ATP_DROP_BITMAP_WIDTH: return SwitchCounter::kDropWrongBitmapWidth;
    case ATP_DROP_VALUE_COUNT: return SwitchCounter::kDropWrongValueCount;
    case ATP_DROP_EMPTY_BITMAP: return SwitchCounter::kDropEmptyBitmap;
    case ATP_DROP_FOREIGN_RANKS: return SwitchCounter::kDropForeignRanks;
    case ATP_PASS_DIRECT: return SwitchCounter::kForwardedDirect;
    case ATP_PASS_DETACHED: return SwitchCounter::kForwardedDetached;
    case ATP_PASS_BEYOND_LIMIT: return SwitchCounter::kForwardedBeyondLimit;
    case ATP_PASS_SHAPE: return SwitchCounter::kForwardedShape;
    case ATP_PASS_OVERLAP: return SwitchCounter::kForwardedOverlap;
    case ATP_PASS_LATE: return SwitchCounter::kForwardedLate;
    case ATP_PASS_RESEND: return SwitchCounter::kForwardedResend;
    case ATP_PASS_AFTER_COLLISION: return SwitchCounter::kForwardedAfterCollision;
    case ATP_PASS_NO_REGION: return SwitchCounter::kForwardedNoRegion;
    case ATP_PASS_OVER_QUOTA: return SwitchCounter::kForwardedOverQuota;
    case ATP_PASS_COLLISION: return SwitchCounter::kCollisions;
    case ATP_PASS_OPERATION_MISMATCH: return SwitchCounter::kOperationMismatches;
    case ATP_CLAIMED:
    case ATP_ADDED: return SwitchCounter::kGradientsSummed;
    case ATP_DUPLICATE: return SwitchCounter::kDuplicates;
    case ATP_COMPLETED: return SwitchCounter::kCompleteSumsSent;
    case ATP_REPEATED: return SwitchCounter::kDuplicatesReemitted;
    case ATP_SENT_PARTIAL: return SwitchCounter::kPartialSumsSent;
    case ATP_FLUSHED: return SwitchCounter::kFlushedSumsSent;
    case ATP_SWEPT: return SwitchCounter::kSweptSumsSent;
    case ATP_RELEASED: return SwitchCounter::kReleases;
    case ATP_MARKED: return SwitchCounter::kMarks;
    case ATP_RECLAIMED: return SwitchCounter::kReclaims;
    case ATP_MARK_KEPT:
    case ATP_HELD_BY_OTHER:
    case ATP_FLUSH_PASSED:
    case ATP_KEPT:
    case ATP_REASONS: break;
  }
  return SwitchCounter::kCount;  // nothing worth a counter
}

}  // namespace atp
