#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "atp/base/time.h"

namespace atp::sim {

// One packet as a line of text: type, identity, flags, ranks, and the fields of its type. Traces of
// the virtual network consist of these, so that two traces can be compared line by line.
std::string display(std::span<const std::uint8_t> bytes);

// Milliseconds since the run began.
std::string display(Instant now);

}  // namespace atp::sim
