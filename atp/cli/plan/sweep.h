#pragma once

#include <optional>
#include <string>
#include <vector>

#include "atp/cli/command/text_table.h"
#include "atp/planner/planner.h"

// The same question for many sizes of one level and many bandwidths of another (or the same), each
// answered twice: without in-network aggregation and, where a switch can aggregate, with it.

namespace atp {

// What is varied of one level; empty values: nothing.
struct SweepAxis {
  std::size_t level = 0;
  std::vector<double> values;  // counts, or factors of the bandwidth
};

struct SweepAnswer {
  planner::Mesh mesh;
  planner::Collective dimension1 = planner::Collective::kNone;
  planner::Collective dimension2 = planner::Collective::kNone;
  double seconds = 0;  // of a step, which is what the meshes are ranked by
};

struct SweepPoint {
  std::uint32_t count = 0;  // of the varied level
  double factor = 1;        // of the varied bandwidth
  std::uint64_t devices = 0;
  // Absent: no mesh is possible, for the reasons.
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

// How many times as fast aggregation is; 1 where it cannot be.
double gain(const SweepPoint& point);

TextTable sweep_table(const PlanSweep& sweep);
// Why points of the table have no answer; empty if all have.
std::string sweep_reasons(const PlanSweep& sweep);
TextTable sweep_csv(const PlanSweep& sweep);

}  // namespace atp
