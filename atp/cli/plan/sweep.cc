#include "atp/cli/plan/sweep.h"

#include <algorithm>

namespace atp {
namespace {

using planner::Interconnect;
using planner::Request;

bool can_aggregate(const Interconnect& interconnect) {
  return std::any_of(interconnect.levels.begin(), interconnect.levels.end(),
                     [](const planner::Level& level) { return level.aggregation.has_value(); });
}

std::optional<SweepAnswer> answer(Request request, bool aggregation, std::string& reasons) {
  request.options.dimension1.aggregation &= aggregation;
  request.options.dimension2.aggregation &= aggregation;
  const Result<planner::Plan> plan = planner::plan(request);
  if (!plan) {
    reasons = plan.error().message;
    return std::nullopt;
  }
  const planner::Candidate& best = plan.value().best;
  return SweepAnswer{.mesh = best.mesh,
                     .dimension1 = best.cost.dimension1.collective,
                     .dimension2 = best.cost.dimension2.collective,
                     .seconds = best.cost.seconds};
}

}  // namespace

Sweep run_sweep(const Request& asked, const SweepAxis& count, const SweepAxis& factor) {
  Request request = asked;
  request.world_size = 0;
  request.options.sensitivities = false;
  request.options.runners_up = 0;
  const std::vector<planner::Level>& levels = asked.interconnect.levels;

  Sweep sweep;
  sweep.title = asked.model.name + " on " + asked.interconnect.name;
  sweep.aggregates = can_aggregate(asked.interconnect) &&
                     asked.options.mode == planner::CostMode::kLinkLoad &&
                     (asked.options.dimension1.aggregation || asked.options.dimension2.aggregation);
  if (!count.values.empty()) sweep.count_label = "count of " + levels[count.level].name;
  if (!factor.values.empty()) sweep.factor_label = "bandwidth of " + levels[factor.level].name;
  for (const double value : count.values) {
    sweep.counts.push_back(static_cast<std::uint32_t>(value));
  }
  if (sweep.counts.empty()) sweep.counts = {levels[count.level].count};
  sweep.factors = factor.values.empty() ? std::vector<double>{1} : factor.values;

  for (const double times : sweep.factors) {
    for (const std::uint32_t children : sweep.counts) {
      request.interconnect = asked.interconnect;
      planner::Level& faster = request.interconnect.levels[factor.level];
      faster.bandwidth = faster.bandwidth * times;
      request.interconnect.levels[count.level].count = children;
      SweepPoint point{.count = children,
                       .factor = times,
                       .devices = planner::device_count(request.interconnect)};
      point.without_aggregation = answer(request, false, point.reasons);
      if (sweep.aggregates) point.with_aggregation = answer(request, true, point.reasons);
      sweep.points.push_back(point);
    }
  }
  return sweep;
}

}  // namespace atp
