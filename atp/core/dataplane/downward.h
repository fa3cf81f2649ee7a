#pragma once

#include "atp/core/dataplane/switch_state.h"

// Downward messages (docs/inside/protocol §4): the switch accepts them from the parent only and
// forwards them to each child whose ranks are addressed. A PARAMETER also releases its aggregator,
// a FLUSH fetches a partial sum, and a JOIN_ACK or STATUS updates the switch's tree.

namespace atp {

void handle_downward(SwitchTurn& turn, const Arrival& in);

}  // namespace atp
