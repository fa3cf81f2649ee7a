#pragma once

#include <memory>

#include "atp/collective/base/transport.h"
#include "atp/collective/ring/ring.h"

namespace atp {

// A ring as a communicator's second path (Communicator::add_ring): all-reduces of float32, whose
// sums have the network's bits.
std::shared_ptr<Transport> ring_transport(std::unique_ptr<Ring> ring);

}  // namespace atp
