#pragma once

#include <cstdint>

#include "atp/core/dataplane/switch_state.h"

// The way up: gradients through the pipeline, and the sums that leave.

namespace atp {

void handle_gradient(SwitchState& state, const Arrival& in);

// Sends a fragment that the pipeline rewrote to the parent. `operation` fills in its values from
// `slot`; those of a fragment that passes unchanged are `values`.
void send_up(SwitchState& state, const Endpoint& parent, const atp_fragment& fragment,
             atp_data_op operation, std::uint32_t slot, std::span<const std::uint8_t> values,
             Outbox& out);

// Emits the sum that a slot held until its release, if the switch still knows where to. Returns
// whether it did.
bool emit_released(SwitchState& state, const atp_fragment& sum, std::uint32_t slot, Outbox& out);

atp_fragment fragment_of(const PacketView& packet);
std::uint64_t nanoseconds(Instant now);

}  // namespace atp
