#pragma once

#include <cstdint>
#include <span>

#include "atp/core/dataplane/switch_state.h"

// The answers of a switch to packets that it rejects: a STATUS to the sender, if the AnswerPacer
// allows it.

namespace atp {

// Whether an answer of `answer_bytes` may follow a packet of `cause_bytes`; counts it if not.
bool may_answer(SwitchTurn& turn, const Endpoint& to, std::size_t cause_bytes,
                std::size_t answer_bytes, const StatusMessage& answer, AnswerPacer::To receiver);
AnswerPacer::To relation_of(const Tree& tree, const Endpoint& sender);

// The switch has no such ranks behind the sender; they will join again at once
// (docs/inside/protocol §2).
void answer_unknown(SwitchTurn& turn, const Arrival& in, const RankSet& ranks);

// A JOIN that cannot be granted.
void answer_refused(SwitchTurn& turn, const Arrival& in, const Join& join, const Refusal& refusal);

// A JOIN of a rank that another socket holds.
void answer_rank_taken(SwitchTurn& turn, const Arrival& in, const Join& join,
                       const Endpoint& holder);

// Asks whoever sends the JOINs of this rank from there for the right proof. It is not paced:
// without it nobody could join, and it is smaller than a JOIN.
void ask_for_proof(SwitchTurn& turn, const PacketView& packet, std::uint16_t stream,
                   const Endpoint& child, std::uint64_t nonce);

// Answers *are you there* with *here*, or passes it on if it is for a node above; false for any
// other packet. It answers any sender, since a rank that the switch has forgotten must not take it
// for dead. The answer has no more bytes than the question.
bool answer_question(SwitchTurn& turn, const Arrival& in);

// A packet of another protocol version; `bytes` has at least the 12 bytes that all versions share.
void answer_versions(SwitchTurn& turn, const Endpoint& from, std::span<const std::uint8_t> bytes);

}  // namespace atp
