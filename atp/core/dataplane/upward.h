#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "atp/core/dataplane/switch_state.h"

// Upward messages: runs gradients through the pipeline and sends the sums that leave.

namespace atp {

void handle_gradient(SwitchTurn& turn, const Arrival& in);

// Where the values of a fragment come from: the incoming packet or a slot, as `operation` says.
struct ValueSource {
  atp_data_op operation = ATP_DATA_NONE;
  std::uint32_t slot = 0;
  std::span<const std::uint8_t> values;
};

// Sends a fragment that the pipeline rewrote to the parent.
void send_up(SwitchTurn& turn, const Endpoint& parent, const atp_fragment& fragment,
             const ValueSource& source);

// Emits the sum that a slot held until its release, if the switch still knows its tree. Returns
// whether it did.
bool emit_released(SwitchTurn& turn, const atp_fragment& sum, std::uint32_t slot);

// Inline, as every packet needs them.
inline atp_fragment fragment_of(const PacketView& packet) {
  atp_fragment fragment;
  fragment.header = packet.header;
  std::copy(packet.ranks.words().begin(), packet.ranks.words().end(), fragment.bitmap);
  return fragment;
}
inline std::uint64_t nanoseconds(Instant now) {
  return static_cast<std::uint64_t>(now.time_since_epoch().count());
}

}  // namespace atp
