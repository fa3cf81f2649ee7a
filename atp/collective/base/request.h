#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace atp {

// The counters (name, value) of one worker, and of its colocated server.
using CounterList = std::vector<std::pair<std::string, std::uint64_t>>;

}  // namespace atp
