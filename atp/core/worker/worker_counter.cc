#include "atp/core/worker/worker_counter.h"

#include <array>

namespace atp {
namespace {

constexpr std::array<std::string_view, Counters<WorkerCounter>::kSize> kNames = {
    "gradients_sent",
    "gradient_bytes_sent",
    "repeat_bytes_sent",
    "gradients_direct",
    "repeats_plain",
    "repeats_resend",
    "repeats_direct",
    "repeats_float",
    "proactive_fragments",
    "proactive_false_positives",
    "timeouts",
    "probes",
    "losses_inferred",
    "window_cuts_ecn",
    "window_cuts_loss",
    "room_cuts",
    "parameters_received",
    "parameter_bytes_received",
    "parameters_float",
    "parameters_duplicate",
    "parameters_collided",
    "parameters_ecn",
    "nacks_received",
    "nacks_early",
    "waiting_for_received",
    "descriptions_sent",
    "joins_sent",
    "joins_answered",
    "unknown_job_received",
    "prove_received",
    "status_ignored",
    "flushes_received",
    "detachments",
    "returns",
    "unreachable",
    "operations_completed",
    "operations_failed",
    "drop_too_short",
    "drop_unknown_version",
    "drop_unknown_type",
    "drop_unknown_flags",
    "drop_unknown_kind",
    "drop_bad_bitmap_width",
    "drop_bad_value_count",
    "drop_bad_length",
    "drop_bad_body",
    "drop_wrong_source",
    "drop_wrong_direction",
    "drop_wrong_job",
    "drop_not_addressed",
    "drop_wrong_stream",
    "drop_wrong_nonce",
    "drop_unsent_sequence",
    "drop_wrong_operation",
    "drop_wrong_shape",
    "drop_not_joined",
};
static_assert(!kNames.back().empty(), "one name per counter");

}  // namespace

std::string_view to_string(WorkerCounter counter) {
  return kNames[static_cast<std::size_t>(counter)];
}

}  // namespace atp
