// Operations, jobs and their trees.
#include <algorithm>

#include "atp/sim/draw.h"

namespace atp::sim {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

Values draw_values(Draw& draw) {
  if (draw.chance(0.6)) return Values::kSmall;
  return static_cast<Values>(draw.between(0, static_cast<std::uint64_t>(Values::kCount) - 1));
}

std::uint64_t draw_length(Draw& draw, std::uint32_t k, std::uint32_t wmax) {
  if (draw.chance(0.08)) return 0;
  if (draw.chance(0.3)) return draw.between(1, k);
  const std::uint64_t fragments = draw.between(1, std::min<std::uint64_t>(80, 4 * wmax + 4));
  return draw.between(1, fragments * k);
}

// Draws the type, reduction and format of an operation.
void draw_numbers(Draw& draw, const JobPlan& job, OperationPlan& operation) {
  OperationSpec& spec = operation.spec;
  spec.reduction = draw.chance(0.3) ? Reduction::kAverage : Reduction::kSum;
  if (draw.chance(0.2)) spec.reduction = draw.one_of({Reduction::kMax, Reduction::kMin});
  if (draw.chance(0.1)) {
    spec.type = DataType::kInt32;
    if (spec.reduction == Reduction::kAverage) spec.reduction = Reduction::kSum;
  }
  if (job.number_format == NumberFormat::kFixed) return;
  if (spec.type == DataType::kFloat32 && draw.chance(0.3)) {
    spec.type = draw.one_of({DataType::kBFloat16, DataType::kFloat16});
  }
  spec.small = draw.chance(0.25);
  spec.format =
      draw.one_of({NumberFormat::kBlocks, NumberFormat::kBlocks, NumberFormat::kBlocks,
                   NumberFormat::kBlocksInt16, NumberFormat::kBlocksInt16, NumberFormat::kExact});
  if (draw.chance(0.5)) return;
  // Many short segments, so that a few values form many blocks.
  const std::uint64_t most = draw.one_of<std::uint64_t>({1, 3, 40, 400});
  for (std::uint64_t left = spec.count; left > 0;) {
    operation.segments.push_back(draw.between(draw.chance(0.1) ? 0 : 1, std::min(most, left)));
    left -= operation.segments.back();
  }
}

OperationPlan draw_operation(Draw& draw, const JobPlan& job, std::uint32_t wmax) {
  OperationPlan operation;
  operation.spec.count = draw_length(draw, job.max_value_count, wmax);
  draw_numbers(draw, job, operation);
  operation.spec.tag = static_cast<std::uint32_t>(draw.between(0, 3));
  operation.spec.timeout = std::chrono::seconds(40);
  operation.values = draw_values(draw);
  operation.in_place = draw.chance(0.5);
  return operation;
}

}  // namespace

std::uint16_t draw_value_count(Draw& draw, bool many) {
  return static_cast<std::uint16_t>(many ? draw.between(20, 70) : draw.between(1, 8));
}

void draw_tree(Draw& draw, const Plan& plan, JobPlan& job) {
  job.parent.clear();
  job.uplink.clear();
  std::vector<std::uint64_t> level;
  level.reserve(plan.switches);
  const std::uint64_t height = draw.between(1, 3);
  for (std::uint32_t i = 0; i < plan.switches; ++i) level.push_back(draw.between(1, height));
  for (std::uint32_t i = 0; i < plan.switches; ++i) {
    std::vector<int> above;
    for (std::uint32_t j = 0; j < plan.switches; ++j) {
      if (level[j] > level[i]) above.push_back(static_cast<int>(j));
    }
    const bool is_root = above.empty() || draw.chance(0.1);
    job.uplink.push_back(is_root ? -1 : above[draw.between(0, above.size() - 1)]);
  }
  const double straight = draw.one_of({0.0, 0.05, 0.3});
  for (Rank rank = 0; rank < job.world_size; ++rank) {
    const bool has_switch = plan.switches > 0 && !draw.chance(straight);
    job.parent.push_back(has_switch ? static_cast<int>(draw.between(0, plan.switches - 1)) : -1);
  }
}

JobPlan draw_job(Draw& draw, const Plan& plan, std::uint32_t index) {
  JobPlan job;
  job.key = {100 + index, static_cast<std::uint32_t>(draw.between(1, 1000))};
  job.world_size = static_cast<std::uint16_t>(
      draw.chance(0.05) ? draw.between(9, 16) : draw.one_of({1, 2, 2, 2, 3, 3, 4, 5, 6, 7, 8}));
  job.first_stream = static_cast<std::uint16_t>(draw.chance(0.2) ? draw.between(1, 65000) : 0);
  job.stream_count = static_cast<std::uint16_t>(draw.one_of({1, 1, 1, 2, 3}));
  job.max_value_count = draw_value_count(draw, plan.server_config.max_value_count > 8);
  job.max_in_flight = static_cast<std::uint32_t>(draw.between(1, 6));
  job.think_max = draw.one_of<Duration>({microseconds(0), microseconds(50), milliseconds(5)});
  job.number_format =
      draw.chance(0.3)
          ? NumberFormat::kFixed
          : draw.one_of({NumberFormat::kBlocks, NumberFormat::kExact, NumberFormat::kBlocksInt16});
  if (job.number_format != NumberFormat::kFixed) ++job.stream_count;
  job.overflow = draw.chance(0.1) ? OverflowPolicy::kProactive : OverflowPolicy::kReactive;
  job.congestion = draw.chance(0.2) ? CongestionPolicy::kNone : CongestionPolicy::kAimd;
  job.leave_at_once = draw.chance(0.5);
  job.data_seed = draw.word();
  job.server = static_cast<std::uint32_t>(draw.between(0, plan.servers - 1));
  const std::uint64_t operations = draw.between(1, plan.servers > 1 ? 12 : 24);
  for (std::uint64_t i = 0; i < operations; ++i) {
    OperationPlan operation = draw_operation(draw, job, plan.server_config.wmax);
    if (i > 0 && draw.chance(0.4)) {  // training repeats the same operations
      const OperationPlan& earlier = job.operations[draw.between(0, i - 1)];
      operation.spec = earlier.spec;
      operation.segments = earlier.segments;
    }
    job.operations.push_back(operation);
  }
  for (Rank rank = 0; rank < job.world_size; ++rank) {
    job.start.push_back(draw.time(Duration{0}, milliseconds(3)));
    job.rack.push_back(static_cast<std::uint32_t>(draw.between(0, 2)));
  }
  if (draw.chance(0.2)) {
    for (Rank rank = 0; rank < job.world_size; ++rank) {
      job.own_value_counts.push_back(
          static_cast<std::uint16_t>(draw.between(1, job.max_value_count)));
    }
  }
  draw_tree(draw, plan, job);
  return job;
}

}  // namespace atp::sim
