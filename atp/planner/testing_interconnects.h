#pragma once

#include <string>
#include <utility>
#include <vector>

#include "atp/planner/planner.h"

// Interconnects and requests for the planner's tests, including the paper's.

namespace atp::planner::testing {

inline Interconnect flat(std::uint32_t devices, BytesPerSecond bandwidth,
                         std::optional<Aggregation> aggregation = {}) {
  return {.name = "flat " + std::to_string(devices),
          .levels = {{.name = "network",
                      .count = devices,
                      .kind = LevelKind::kSwitch,
                      .bandwidth = bandwidth,
                      .aggregation = aggregation}}};
}

inline Interconnect two_levels(Level top, Level bottom) {
  return {.name = "two levels", .levels = {std::move(top), std::move(bottom)}};
}

inline Level switched(std::string name, std::uint32_t count, double gigabytes,
                      std::optional<Aggregation> aggregation = {}) {
  return {.name = std::move(name),
          .count = count,
          .kind = LevelKind::kSwitch,
          .bandwidth = gigabytes_per_second(gigabytes),
          .aggregation = aggregation};
}

inline Level linked(std::string name, std::uint32_t count, LevelKind kind, double gigabytes) {
  return {.name = std::move(name),
          .count = count,
          .kind = kind,
          .bandwidth = gigabytes_per_second(gigabytes)};
}

// Fig. 7a with the paper's numbers: NVLink's 200 GB/s between two GPUs include both directions.
inline Interconnect figure_7a() {
  return two_levels(switched("node", 4, 25), linked("gpu", 4, LevelKind::kFull, 200));
}

// Fig. 7b: a torus of 4 x 4 with links of 25 GB/s.
inline Interconnect figure_7b() {
  return two_levels(linked("row", 4, LevelKind::kTorus, 25),
                    linked("column", 4, LevelKind::kTorus, 25));
}

// A GPT whose widths can be split on every mesh of up to 1,024 ranks, with one byte per element: a
// layer costs layer_unit() * T, where T is the number in the paper and the tables.
inline Transformer divisible_gpt() {
  return {.name = "gpt",
          .hidden = 16384,
          .layers = 3,
          .heads = 1024,
          .vocabulary = 0,
          .bytes_per_element = 1};
}

inline Request request_for(Interconnect interconnect, CostMode mode = CostMode::kLinkLoad) {
  Request request{.interconnect = std::move(interconnect),
                  .model = divisible_gpt(),
                  .workload = {.batch = 1024, .sequence = 2}};
  request.options.mode = mode;
  request.options.runners_up = 1000;
  request.options.sensitivities = false;
  request.options.volume = Volume::kEquation2;  // T is 7/d1 * t2 + 2/d2 * t1
  return request;
}

inline Request with_collectives(Request request, CollectiveSet allowed) {
  request.options.dimension1 = allowed;
  request.options.dimension2 = allowed;
  return request;
}

// 2 b s h e: a layer takes this times T seconds on links of one byte per second.
inline double layer_unit(const Request& request) {
  return 2.0 * static_cast<double>(request.workload.tokens()) * request.model.hidden *
         request.model.bytes_per_element;
}

// T in units of h over one byte per second, or per gigabyte per second.
inline double units(const Request& request, const Candidate& candidate) {
  return candidate.cost.seconds / layer_unit(request);
}
inline double gigabyte_units(const Request& request, const Candidate& candidate) {
  return units(request, candidate) * 1e9;
}

// GPT-2 small on a flat network.
inline Request small_gpt(std::uint32_t devices) {
  Request request = request_for(flat(devices, gigabytes_per_second(10)));
  request.model = {.hidden = 768, .layers = 12, .heads = 12};
  request.workload = {.batch = 4, .sequence = 1024};
  return request;
}

}  // namespace atp::planner::testing
