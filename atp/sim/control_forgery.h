#pragma once

#include <cstdint>
#include <vector>

#include "atp/base/random.h"

// How an enemy changes the bodies of control messages (docs/protocol.md §3.1, §3.2). The bytes are
// a whole packet; one without a body, or too short for the field chosen, stays as it is.

namespace atp::sim {

using PacketBytes = std::vector<std::uint8_t>;

bool is_control(const PacketBytes& bytes);

// Another value for one field of the body, a likely one or any.
void change_body_field(PacketBytes& bytes, Random& random);

// A value that the field's range does not have, so that nobody can read the body.
void make_body_unreadable(PacketBytes& bytes, Random& random);

// Replaces the nonce of a JOIN, a LEAVE, or the JOIN_ACK or STATUS that answers one: nobody but
// the member itself and its tree knows the true one.
void forget_nonce(PacketBytes& bytes, Random& random);

// The LEAVE that the sender of this JOIN might send.
PacketBytes leave_of(const PacketBytes& join);

}  // namespace atp::sim
