#include "atp/cli/plan/sweep.h"

#include <fmt/core.h>

#include <algorithm>

#include "atp/cli/plan/plan_text.h"
#include "atp/planner/text.h"

namespace atp {
namespace {

using planner::Interconnect;
using planner::Request;

bool can_aggregate(const Interconnect& interconnect) {
  return std::any_of(interconnect.levels.begin(), interconnect.levels.end(),
                     [](const planner::Level& level) { return level.aggregation.has_value(); });
}

std::optional<SweepAnswer> answer(Request request, bool aggregation, std::string& reasons) {
  request.options.dimension1.in_network &= aggregation;
  request.options.dimension2.in_network &= aggregation;
  const Result<planner::Plan> plan = planner::plan(request);
  if (!plan) {
    reasons = plan.error().message;
    return std::nullopt;
  }
  const planner::Candidate& best = plan.value().best;
  return SweepAnswer{.mesh = best.mesh,
                     .dimension1 = best.cost.dimension1.collective,
                     .dimension2 = best.cost.dimension2.collective,
                     .seconds = best.cost.step_seconds};
}

using planner::Collective;

std::string collectives_text(const SweepAnswer& answer) {
  if (answer.dimension2 == Collective::kNone) return collective_text(answer.dimension1);
  if (answer.dimension1 == Collective::kNone) return collective_text(answer.dimension2);
  return collective_text(answer.dimension1) + "+" + collective_text(answer.dimension2);
}

void add_answer(const std::optional<SweepAnswer>& answer, std::vector<std::string>& row) {
  row.push_back(answer ? mesh_text(answer->mesh) : "none possible");
  row.push_back(answer ? collectives_text(*answer) : "");
  row.push_back(answer ? duration_for_people(answer->seconds) : "");
}

void add_raw(const std::optional<SweepAnswer>& answer, std::vector<std::string>& row) {
  row.push_back(answer ? std::to_string(answer->mesh.d1) : "");
  row.push_back(answer ? std::to_string(answer->mesh.d2) : "");
  row.push_back(answer ? planner::to_string(answer->dimension1) : "");
  row.push_back(answer ? planner::to_string(answer->dimension2) : "");
  row.push_back(answer ? fmt::format("{}", answer->seconds) : "");
}

}  // namespace

PlanSweep run_sweep(const Request& asked, const SweepAxis& count, const SweepAxis& factor) {
  Request request = asked;
  request.world_size = 0;
  request.options.sensitivities = false;
  request.options.runners_up = 0;
  const std::vector<planner::Level>& levels = asked.interconnect.levels;

  PlanSweep sweep;
  const std::string& network = asked.interconnect.name;
  sweep.title =
      asked.model.name + " on " + (network.empty() ? "a network without a name" : network);
  sweep.aggregates = can_aggregate(asked.interconnect) &&
                     asked.options.mode == planner::CostMode::kLinkLoad &&
                     (asked.options.dimension1.in_network || asked.options.dimension2.in_network);
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

double gain(const SweepPoint& point) {
  if (!point.without_aggregation || !point.with_aggregation) return 1;
  if (point.with_aggregation->seconds <= 0) return 1;
  return point.without_aggregation->seconds / point.with_aggregation->seconds;
}

TextTable sweep_table(const PlanSweep& sweep) {
  std::vector<std::string> header{"devices"};
  if (!sweep.factor_label.empty()) header.push_back(sweep.factor_label);
  header.insert(header.end(), {"best mesh", "by", "per step"});
  if (sweep.aggregates) header.insert(header.end(), {"with innetwork", "by", "per step", "gain"});
  TextTable table(header);
  for (const SweepPoint& point : sweep.points) {
    std::vector<std::string> row{std::to_string(point.devices)};
    if (!sweep.factor_label.empty()) row.push_back(fmt::format("x{:g}", point.factor));
    add_answer(point.without_aggregation, row);
    if (sweep.aggregates) {
      add_answer(point.with_aggregation, row);
      row.push_back(point.without_aggregation && point.with_aggregation
                        ? fmt::format("{:.2f}", gain(point))
                        : "-");
    }
    table.add(std::move(row));
  }
  return table;
}

std::string sweep_reasons(const PlanSweep& sweep) {
  std::string text;
  std::uint64_t said = 0;
  for (const SweepPoint& point : sweep.points) {
    if (point.reasons.empty() || point.devices == said) continue;
    said = point.devices;
    text += fmt::format("\n{} devices: {}\n", point.devices, point.reasons);
  }
  return text;
}

TextTable sweep_csv(const PlanSweep& sweep) {
  TextTable table({"count", "bandwidth_factor", "devices", "d1", "d2", "collective1", "collective2",
                   "seconds", "innetwork_d1", "innetwork_d2", "innetwork_collective1",
                   "innetwork_collective2", "innetwork_seconds"});
  for (const SweepPoint& point : sweep.points) {
    std::vector<std::string> row{std::to_string(point.count), fmt::format("{:g}", point.factor),
                                 std::to_string(point.devices)};
    add_raw(point.without_aggregation, row);
    add_raw(point.with_aggregation, row);
    table.add(std::move(row));
  }
  return table;
}

}  // namespace atp
