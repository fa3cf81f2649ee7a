#pragma once

#include <cstdint>

#include "atp/base/result.h"
#include "atp/collective/base/options.h"

namespace atp {

// The largest K that this rank can offer the job: the configured one, or else as many as the MTU
// towards every hop of the route carries. More than that is an error, since IP would have to
// fragment the packets.
Result<std::uint16_t> choose_value_count(const CommunicatorOptions& options);

}  // namespace atp
