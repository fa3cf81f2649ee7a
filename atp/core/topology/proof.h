#pragma once

#include <cstdint>

#include "atp/base/siphash.h"
#include "atp/wire/endpoint.h"
#include "atp/wire/packet_view.h"

// Anybody can forge the source address of a JOIN, and members get packets that they did not ask
// for. So a node tells whoever sends it a JOIN a number that it can compute itself, and that nobody
// else can. A JOIN that repeats the number shows that its sender receives what is sent to its
// address (docs/inside/protocol §2, *Proof*). Nothing is stored for that.

namespace atp {

std::uint64_t proof_of(const HashKey& secret, const JobKey& job, const Endpoint& sender);

}  // namespace atp
