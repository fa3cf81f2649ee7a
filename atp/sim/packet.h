#pragma once

#include <cstdint>
#include <vector>

#include "atp/wire/endpoint.h"

namespace atp::sim {

// A packet as whoever watches the wire sees it.
struct Packet {
  Endpoint from;
  Endpoint to;
  std::vector<std::uint8_t> bytes;
};

}  // namespace atp::sim
