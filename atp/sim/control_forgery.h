#pragma once

#include <cstdint>
#include <vector>

#include "atp/base/random.h"

// How an attacker changes the bodies of control messages (docs/inside/protocol §3.1, §3.2). The
// bytes are a whole packet; one without a body, or too short for the chosen field, is left
// unchanged.

namespace atp::sim {

using PacketBytes = std::vector<std::uint8_t>;

bool is_control(const PacketBytes& bytes);

// Gives one field of the body another value, a plausible or a random one.
void change_body_field(PacketBytes& bytes, Random& random);

// Gives a field a value outside its range, so that the body cannot be parsed.
void make_body_unreadable(PacketBytes& bytes, Random& random);

// Replaces the nonce of a JOIN, a LEAVE, or the JOIN_ACK or STATUS that answers one: only the
// member itself and its tree have the true one.
void forget_nonce(PacketBytes& bytes, Random& random);

// The LEAVE that the sender of this JOIN might send.
PacketBytes leave_of(const PacketBytes& join);

}  // namespace atp::sim
