#pragma once

#include "atp/core/server/turn.h"
#include "atp/wire/packet_view.h"
#include "atp/wire/status.h"

namespace atp {

// A STATUS to the neighbour from which the packet came, in the packet's own job, stream and bitmap
// width, addressed to `ranks`. What answers a straight JOIN or LEAVE carries DIRECT as well, so
// that a worker can tell the two ways apart. Used where no membership says whom to answer, and
// where the holder of a rank must not hear what another is told.
void reply(Turn& turn, const Endpoint& to, const PacketView& packet, const RankSet& ranks,
           const StatusMessage& message);

// Why a JOIN changes nothing, and what its sender is told. The holder of the rank hears nothing of
// it.
struct TurnedAway {
  ServerCounter drop = ServerCounter::kDropRefused;
  StatusMessage answer;
};

}  // namespace atp
