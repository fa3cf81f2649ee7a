// The public names of a switch's counters, and the counter of each reason of the pipeline.
#include "atp/core/dataplane/switch_counter.h"

#include <array>

#include "atp/base/check.h"

namespace atp {

namespace {

// In the order of the enum.
constexpr std::array<std::string_view, Counters<SwitchCounter>::kSize> kNames = {
    "packets_received",
    "gradients_received",
    "parameters_received",
    "flushes_received",
    "nacks_received",
    "joins_received",
    "join_acks_received",
    "leaves_received",
    "statuses_received",
    "gradients_summed",
    "duplicates",
    "complete_sums_sent",
    "partial_sums_sent",
    "flushed_sums_sent",
    "swept_sums_sent",
    "duplicates_reemitted",
    "forwarded_direct",
    "forwarded_detached",
    "forwarded_beyond_limit",
    "forwarded_shape",
    "forwarded_overlap",
    "forwarded_late",
    "forwarded_resend",
    "forwarded_after_collision",
    "forwarded_no_region",
    "forwarded_over_quota",
    "collisions",
    "operation_mismatches",
    "ecn_marks",
    "releases",
    "marks",
    "reclaims",
    "multicast_copies",
    "joins_relayed",
    "joins_unproven",
    "leaves_relayed",
    "questions",
    "statuses_sent",
    "statuses_withheld",
    "trees_made",
    "trees_dropped",
    "leases_ended",
    "swept_discarded",
    "unreachable",
    "drop_too_short",
    "drop_unknown_version",
    "drop_unknown_type",
    "drop_unknown_flags",
    "drop_unknown_kind",
    "drop_bad_bitmap_width",
    "drop_bad_value_count",
    "drop_bad_length",
    "drop_bad_body",
    "drop_unknown_job",
    "drop_unknown_child",
    "drop_foreign_ranks",
    "drop_empty_bitmap",
    "drop_wrong_bitmap_width",
    "drop_wrong_value_count",
    "drop_not_from_parent",
    "drop_no_child_addressed",
    "drop_straight",
    "drop_refused",
    "drop_key",
    "drop_rank_taken",
    "drop_wrong_nonce",
    "drop_too_many_hops",
};
static_assert(!kNames.back().empty(), "one name per counter");

}  // namespace

std::string_view to_string(SwitchCounter counter) {
  const auto at = static_cast<std::size_t>(counter);
  return at < kNames.size() ? kNames[at] : "unknown";
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
    case ATP_FLUSH_PASSED:
    case ATP_KEPT:
    case ATP_REASONS: break;
  }
  return SwitchCounter::kCount;  // not counted
}

}  // namespace atp
