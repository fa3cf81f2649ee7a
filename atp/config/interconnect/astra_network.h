#pragma once

#include <string>
#include <string_view>

#include "atp/base/result.h"
#include "atp/config/interconnect/interconnect_file.h"

// Imports a network description of ASTRA-sim (analytical backend), for example
//
//   topology: [ Ring, Switch ]      innermost dimension first; Ring, FullyConnected or Switch
//   npus_count: [ 4, 8 ]
//   bandwidth: [ 200.0, 50.0 ]      GB/s of one link, per direction
//   latency: [ 500.0, 2000.0 ]      ns
//
// There every NPU has its own links in every dimension. Here an upper level's link belongs to a
// whole child, so it gets the bandwidth of all the child's NPUs together. Rings of rings become a
// torus, which is equivalent.

namespace atp {

Result<Imported> import_astra_network(std::string_view text, const std::string& file);

}  // namespace atp
