// The public names of a server's counters.
#include "atp/core/server/server_counter.h"

#include <array>

#include "atp/base/counters.h"

namespace atp {

namespace {

// In the order of the enum.
constexpr std::array<std::string_view, Counters<ServerCounter>::kSize> kNames = {
    "packets_received",
    "bytes_received",
    "gradients_received",
    "gradient_bytes_received",
    "joins",
    "joins_unproven",
    "leaves",
    "questions",
    "descriptions",
    "unreachable",
    "jobs_made",
    "jobs_ended",
    "jobs_failed",
    "ranks_lost",
    "fragments_completed",
    "fragments_completed_by_one_packet",
    "fragments_completed_in_least_packets",
    "fragments_completed_by_server",
    "fragments_completed_float",
    "fragments_waited_for_float_slot",
    "parameters_sent",
    "parameters_repeated",
    "nacks",
    "flushes",
    "join_acks",
    "status_waiting_for",
    "status_operation_mismatch",
    "status_rank_taken",
    "status_unknown_job",
    "status_versions",
    "status_refused",
    "status_lease_ended",
    "status_detached",
    "status_server_restarted",
    "status_left",
    "status_are_you_there",
    "status_here",
    "status_operation",
    "status_prove",
    "status_withheld",
    "drop_too_short",
    "drop_unknown_version",
    "drop_unknown_type",
    "drop_unknown_flags",
    "drop_unknown_kind",
    "drop_bad_bitmap_width",
    "drop_bad_value_count",
    "drop_bad_length",
    "drop_bad_body",
    "drop_unexpected_type",
    "drop_unknown_job",
    "drop_foreign_incarnation",
    "drop_unknown_stream",
    "drop_joining",
    "drop_wrong_bitmap_width",
    "drop_wrong_value_count",
    "drop_foreign_ranks",
    "drop_wrong_source",
    "drop_not_awaited",
    "drop_past_sequence",
    "drop_future_sequence",
    "drop_wrong_operation",
    "drop_wrong_shape",
    "drop_duplicate",
    "drop_overlap",
    "drop_complete",
    "drop_float_in_integer_mode",
    "drop_integer_in_float_mode",
    "drop_float_of_several_ranks",
    "drop_float_waits",
    "drop_bad_rank",
    "drop_refused",
    "drop_key",
    "drop_rank_taken",
    "drop_rank_gone",
    "drop_forgotten",
    "drop_wrong_nonce",
};
static_assert(!kNames.back().empty(), "one name per counter");

}  // namespace

std::string_view to_string(ServerCounter counter) {
  const auto at = static_cast<std::size_t>(counter);
  return at < kNames.size() ? kNames[at] : "unknown";
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
