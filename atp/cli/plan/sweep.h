#pragma once

#include <optional>
#include <string>
#include <vector>

#include "atp/cli/command/text_table.h"
#include "atp/planner/planner.h"

// Plans for many sizes of one level and many bandwidths of another (or the same) level. Each point
// is planned without in-network aggregation and, if a switch can aggregate, with it.

namespace atp {

// The values tried for one level; empty: it is not varied.
struct SweepAxis {
  std::size_t level = 0;
  std::vector<double> values;  // counts, or factors of the bandwidth
};

struct SweepAnswer {
  planner::Mesh mesh;
  planner::Collective dimension1 = planner::Collective::kNone;
  planner::Collective dimension2 = planner::Collective::kNone;
  double seconds = 0;  // per step, by which the meshes are ranked
};

struct SweepPoint {
  std::uint32_t count = 0;  // of the level whose count varies
  double factor = 1;        // for the bandwidth that varies
  std::uint64_t devices = 0;
  // Absent: no mesh is possible; `reasons` says why.
  std::optional<SweepAnswer> without_aggregation;
  std::optional<SweepAnswer> with_aggregation;
  std::string reasons;
};

struct PlanSweep {
  std::string title;
  std::string count_label;   // "count of host"; empty: not varied
  std::string factor_label;  // "bandwidth of host"
  bool aggregates = false;
  std::vector<std::uint32_t> counts;
  std::vector<double> factors;
  std::vector<SweepPoint> points;  // counts within factors
};

PlanSweep run_sweep(const planner::Request& request, const SweepAxis& count,
                    const SweepAxis& factor);

// The speed-up by aggregation; 1 if no switch can aggregate.
double gain(const SweepPoint& point);

TextTable sweep_table(const PlanSweep& sweep);
// Why points of the table have no mesh; empty if all have one.
std::string sweep_reasons(const PlanSweep& sweep);
TextTable sweep_csv(const PlanSweep& sweep);

}  // namespace atp
