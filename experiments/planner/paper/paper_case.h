#pragma once

#include <cstdint>

#include "atp/planner/planner.h"

// The machines of the paper (Cheng et al., "ATP: Adaptive Tensor Parallelism for Foundation
// Models") and a GPT that can be split on any mesh of up to 1,024 ranks, so that costs are in the
// paper's unit: T = 7/d1 t2 + 2/d2 t1. Links have 1 GB/s unless stated otherwise.

namespace atp::paper {

planner::Interconnect flat_switch(std::uint32_t devices, double gigabytes = 1);
planner::Interconnect aggregating_switch(
    std::uint32_t devices);                                    // servers are never the bottleneck
planner::Interconnect serving_workers(std::uint32_t devices);  // the workers are the servers
// Hosts of four on an aggregating switch with 1 GB/s per host; inside a host 1 GB/s per device.
planner::Interconnect hosts_of_four();
// Fig. 7a: four nodes of four GPUs, `nvlink` GB/s between two GPUs and `network` to a node.
planner::Interconnect figure_7a(double nvlink, double network);
planner::Interconnect figure_7b();
// Four pairs of GPUs: GB/s of a pair's bridge, and of the links between pairs.
planner::Interconnect ic2(double nvlink, double pcie);
planner::Interconnect ic1_measured();

planner::Request request(planner::Interconnect interconnect,
                         planner::CostMode mode = planner::CostMode::kPaper);
// The same with a single collective on both dimensions.
planner::Request only(planner::Request request, planner::Collective collective);

double units(const planner::Request& request, planner::Mesh mesh);
struct Best {
  planner::Mesh mesh;
  double units = 0;
};
Best best(const planner::Request& request);

}  // namespace atp::paper
