#pragma once

#include <memory>

#include "atp/collective/base/transport.h"
#include "atp/collective/peer/peers.h"

namespace atp {

// The connections between ranks as a communicator's second path (Communicator::add_ring), for
// sums of float32 and all-reduces of int32, which have the network's bits. Others may use the same
// peers, and ask them for their waits.
std::shared_ptr<Transport> peers_transport(std::shared_ptr<Peers> peers);

}  // namespace atp
