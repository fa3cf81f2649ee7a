#pragma once

#include <string>
#include <string_view>

#include "atp/base/result.h"
#include "atp/config/interconnect/interconnect_file.h"

// ASTRA-sim's network description (its analytical backend), for example
//
//   topology: [ Ring, Switch ]      innermost dimension first; Ring, FullyConnected or Switch
//   npus_count: [ 4, 8 ]
//   bandwidth: [ 200.0, 50.0 ]      GB/s of one link, per direction
//   latency: [ 500.0, 2000.0 ]      ns
//
// There every NPU has links of its own in every dimension. Here an upper level's link belongs to a
// child as a whole, so it gets the bandwidth of all the child's NPUs together; rings upon rings
// become a torus, which is exactly the same.

namespace atp {

Result<Imported> import_astra_network(std::string_view text, const std::string& file);

}  // namespace atp
