#pragma once

#include "atp/core/dataplane/switch_state.h"

// How a switch learns its trees (docs/protocol.md §2): JOINs pass through it on their way up, and
// it notes child and parent. It takes its own entry off the remaining route without knowing its own
// address, which only those who sent to it need to know. What cannot be is refused by STATUS
// straight to the sender; what the job must agree on is the server's to judge.

namespace atp {

// A JOIN may name at most this many streams, which bounds the memory of a tree.
inline constexpr std::uint16_t kMaxStreamsOfTree = 1024;

void handle_join(SwitchTurn& turn, const Arrival& in);

// LEAVE goes up as long as it is repeated; the rank leaves the mask with the first.
void handle_leave(SwitchTurn& turn, const Arrival& in);

}  // namespace atp
