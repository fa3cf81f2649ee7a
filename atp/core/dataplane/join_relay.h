#pragma once

#include "atp/core/dataplane/switch_state.h"

// How a switch learns its trees (docs/inside/protocol §2): JOINs pass through it on their way up,
// and it notes child and parent. It takes the first entry off the remaining route, which must be
// the address at which the JOIN has arrived. It refuses an impossible JOIN by STATUS directly to
// the sender; the server checks what all ranks of the job must agree on.

namespace atp {

// A JOIN may name at most this many streams, which bounds the memory of a tree.
inline constexpr std::uint16_t kMaxStreamsOfTree = 1024;

void handle_join(SwitchTurn& turn, const Arrival& in);

// Every repeated LEAVE goes up; the first one takes the rank off the mask.
void handle_leave(SwitchTurn& turn, const Arrival& in);

}  // namespace atp
