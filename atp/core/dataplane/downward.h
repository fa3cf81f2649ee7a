#pragma once

#include "atp/core/dataplane/switch_state.h"

// The way down (docs/protocol.md §4): what the parent sends, and only the parent, goes on to each
// child whose ranks are addressed. On its way a PARAMETER releases its aggregator, a FLUSH fetches
// a partial sum, and a JOIN_ACK or STATUS teaches the switch about its tree.

namespace atp {

void handle_downward(SwitchTurn& turn, const Arrival& in);

}  // namespace atp
