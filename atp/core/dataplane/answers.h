#pragma once

#include <cstdint>
#include <span>

#include "atp/core/dataplane/switch_state.h"

// What a switch says to whom it turns away: a STATUS to the sender, paced by the AnswerPacer.

namespace atp {

// The switch doesn't know these ranks behind the sender; they join again at once
// (docs/protocol.md §2).
void answer_unknown(SwitchState& state, const Arrival& in, const RankSet& ranks);

// A JOIN that asks for what cannot be.
void answer_refused(SwitchState& state, const Arrival& in, const Join& join,
                    const Refusal& refusal);

// A JOIN of a rank that another socket holds.
void answer_rank_taken(SwitchState& state, const Arrival& in, const Join& join,
                       const Endpoint& holder);

// A packet of another protocol version; `bytes` holds at least the 12 that all versions share.
void answer_versions(SwitchState& state, Instant now, const Endpoint& from,
                     std::span<const std::uint8_t> bytes, Outbox& out);

}  // namespace atp
