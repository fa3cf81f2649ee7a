#pragma once

#include <cstdint>
#include <span>

#include "atp/core/dataplane/switch_state.h"

// What a switch says to whom it turns away: a STATUS to the sender, if the AnswerPacer allows it.

namespace atp {

// The switch doesn't know these ranks behind the sender; they join again at once
// (docs/protocol.md §2).
void answer_unknown(SwitchTurn& turn, const Arrival& in, const RankSet& ranks);

// A JOIN that asks for what cannot be.
void answer_refused(SwitchTurn& turn, const Arrival& in, const Join& join, const Refusal& refusal);

// A JOIN of a rank that another socket holds.
void answer_rank_taken(SwitchTurn& turn, const Arrival& in, const Join& join,
                       const Endpoint& holder);

// Says *here* to one that asks; false if the packet asks nothing. To anybody, as whom a switch has
// forgotten must not take it for dead; and no more than the question was.
bool answer_question(SwitchTurn& turn, const Arrival& in);

// A packet of another protocol version; `bytes` holds at least the 12 that all versions share.
void answer_versions(SwitchTurn& turn, const Endpoint& from, std::span<const std::uint8_t> bytes);

}  // namespace atp
