#pragma once

#include <memory>

#include "atp/collective/ring/ring.h"
#include "atp/collective/way.h"

namespace atp {

// A ring as a communicator's second path (Communicator::add_ring): all-reduces of float32, whose
// sums have the network's bits.
std::shared_ptr<Way> ring_way(std::unique_ptr<Ring> ring);

}  // namespace atp
