#include "experiments/planner/paper/paper_case.h"

#include <string>

#include "atp/base/check.h"

namespace atp::paper {
namespace {

using planner::Collective;
using planner::gigabytes_per_second;
using planner::Interconnect;
using planner::Level;
using planner::LevelKind;
using planner::Request;

Level level(const char* name, std::uint32_t count, LevelKind kind, double gigabytes) {
  return {.name = name, .count = count, .kind = kind, .bandwidth = gigabytes_per_second(gigabytes)};
}

// 2 b s h e: a layer takes this times T divided by bytes per second.
double units_of(const Request& request, double seconds) {
  return seconds * 1e9 /
         (2.0 * static_cast<double>(request.workload.tokens()) * request.model.hidden *
          request.model.bytes_per_element);
}

}  // namespace

Interconnect flat_switch(std::uint32_t devices, double gigabytes) {
  return {.name = "flat switch of " + std::to_string(devices),
          .levels = {level("device", devices, LevelKind::kSwitch, gigabytes)}};
}

Interconnect aggregating_switch(std::uint32_t devices) {
  Interconnect interconnect = flat_switch(devices);
  interconnect.levels[0].aggregation = planner::Aggregation{};
  return interconnect;
}

Interconnect serving_workers(std::uint32_t devices) {
  Interconnect interconnect = aggregating_switch(devices);
  interconnect.levels[0].aggregation->placement = planner::ServerPlacement::kColocated;
  return interconnect;
}

Interconnect hosts_of_four() {
  Interconnect interconnect{.name = "hosts of four devices, 1 GB/s a host",
                            .levels = {level("host", 2, LevelKind::kSwitch, 1),
                                       level("device", 4, LevelKind::kSwitch, 1)}};
  interconnect.levels[0].aggregation = planner::Aggregation{};
  return interconnect;
}

Interconnect figure_7a(double nvlink, double network) {
  return {.name = "Fig. 7a",
          .levels = {level("node", 4, LevelKind::kSwitch, network),
                     level("GPU", 4, LevelKind::kFull, nvlink)}};
}

Interconnect figure_7b() {
  return {.name = "Fig. 7b",
          .levels = {level("ring", 4, LevelKind::kTorus, 25),
                     level("device", 4, LevelKind::kTorus, 25)}};
}

Interconnect ic2(double nvlink, double pcie) {
  return {.name = "IC2",
          .levels = {level("pair", 4, LevelKind::kSwitch, pcie),
                     level("GPU", 2, LevelKind::kPairs, nvlink)}};
}

Interconnect ic1_measured() {
  Interconnect interconnect = flat_switch(8, 16);
  interconnect.measured = {{{2, 4}, {{gigabytes_per_second(1.20)}}, {{gigabytes_per_second(4.95)}}},
                           {{8, 1}, {{gigabytes_per_second(0.97)}}, {}}};
  return interconnect;
}

Request request(Interconnect interconnect, planner::CostMode mode) {
  Request request{
      .interconnect = std::move(interconnect),
      .model = {.name = "GPT", .hidden = 16384, .layers = 1, .heads = 1024, .bytes_per_element = 2},
      .workload = {.batch = 1024, .sequence = 2}};
  request.options.mode = mode;
  request.options.volume = planner::Volume::kEquation2;
  request.options.sensitivities = false;
  return request;
}

Request only(Request request, Collective collective) {
  request.options.dimension1 = request.options.dimension2 =
      planner::CollectiveSet::only(collective);
  return request;
}

double units(const Request& request, planner::Mesh mesh) {
  const Result<planner::Candidate> candidate = planner::evaluate(request, mesh);
  ATP_CHECK(candidate.ok());
  return units_of(request, candidate.value().cost.seconds);
}

Best best(const Request& request) {
  const Result<planner::Plan> plan = planner::plan(request);
  ATP_CHECK(plan.ok());
  return {plan.value().best.mesh, units_of(request, plan.value().best.cost.seconds)};
}

}  // namespace atp::paper
