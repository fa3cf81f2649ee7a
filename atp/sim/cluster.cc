#include "atp/sim/cluster.h"

namespace atp::sim {
namespace {

constexpr std::uint16_t kValuesPerFragment = 2;

JobPlan job_of(const ClusterShape& shape, std::uint32_t racks) {
  JobPlan job;
  job.world_size = shape.workers;
  job.max_value_count = kValuesPerFragment;
  // With the fixed scale of 1e8, sums of so many ranks would overflow an int32 and be sent as
  // floats.
  job.number_format = NumberFormat::kBlocks;
  job.stream_count = 2;
  OperationPlan operation;
  operation.spec.count = std::uint64_t{kValuesPerFragment} * shape.fragments;
  job.operations.push_back(operation);
  job.uplink.assign(racks, static_cast<int>(racks));
  job.uplink.push_back(-1);
  for (std::uint32_t rank = 0; rank < shape.workers; ++rank) {
    job.rack.push_back(rank / shape.rack_size);
    job.parent.push_back(static_cast<int>(rank / shape.rack_size));
  }
  return job;
}

}  // namespace

Plan cluster_plan(const ClusterShape& shape) {
  const std::uint32_t racks = (shape.workers + shape.rack_size - 1U) / shape.rack_size;
  Plan plan;
  plan.switches = racks + 1;
  plan.switch_config.aggregators = 65536;
  plan.switch_config.max_value_count = kValuesPerFragment;
  plan.switch_config.max_trees = 16;
  plan.server_config.max_jobs = 16;
  plan.server_config.wmax = 256;
  plan.jobs.push_back(job_of(shape, racks));
  const LinkPlan link{.bits_per_s = 100'000'000'000, .delay = std::chrono::nanoseconds(500)};
  plan.fabric.worker = plan.fabric.server = plan.fabric.rack = link;
  plan.fabric.switch_node = {};
  plan.fabric.server_rack = {racks};
  for (std::uint32_t i = 0; i <= racks; ++i) plan.fabric.switch_rack.push_back(i);
  return plan;
}

}  // namespace atp::sim
