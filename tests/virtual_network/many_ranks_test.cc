#include <string>

#include "atp/sim/cluster.h"
#include "tests/virtual_network/scenario.h"

// Results of jobs with up to 1,024 ranks: every magnitude, type, reduction and format, in trees of
// height 0 to 2, with loss and over two servers, compared with the oracle.

namespace atp::sim {
namespace {

struct Shape {
  std::uint16_t ranks = 16;
  std::uint16_t rack_size = 32;
  int height = 2;  // 0: no switch, 1: one per rack, 2: one per rack and one above them
  bool has_loss = false;
  bool has_two_servers = false;
};

std::string name_of(const testing::TestParamInfo<Shape>& instance) {
  const Shape& shape = instance.param;
  return std::to_string(shape.ranks) + "_ranks_" + "in_racks_of_" +
         std::to_string(shape.rack_size) + "_height_" + std::to_string(shape.height) +
         (shape.has_loss ? "_with_loss" : "") + (shape.has_two_servers ? "_over_two_servers" : "");
}

// All kinds of values once in blocks, and one operation of every other kind.
std::vector<OperationPlan> every_kind(std::uint16_t ranks) {
  std::vector<OperationPlan> operations;
  for (int i = 0; i < static_cast<int>(Values::kCount); ++i) {
    OperationPlan& operation = operations.emplace_back();
    operation.values = static_cast<Values>(i);
    operation.spec.count = 300;
    operation.segments = {3, 0, 257, 40};
    if (i % 2 == 1) operation.spec.reduction = Reduction::kAverage;
  }
  const auto add = [&](Values values, OperationSpec spec) {
    spec.count = 40;
    operations.push_back({.spec = spec, .values = values, .in_place = true});
  };
  add(Values::kMixed, {.small = true});
  add(Values::kNotFinite, {.format = NumberFormat::kExact});
  add(Values::kMixed, {.type = DataType::kBFloat16});
  add(Values::kHuge, {.type = DataType::kFloat16, .reduction = Reduction::kAverage});
  add(Values::kNotFinite, {.reduction = Reduction::kMax});
  add(Values::kSmall, {.type = DataType::kInt32});
  add(Values::kSmall, {.type = DataType::kInt32, .reduction = Reduction::kMin});
  if (ranks <= 64) {
    add(Values::kMixed, {.format = NumberFormat::kBlocksInt16});
    add(Values::kNotFinite, {.format = NumberFormat::kBlocksInt16});
  }
  return operations;
}

class ManyRanks : public testing::TestWithParam<Shape> {
 protected:
  static Plan plan() {
    const Shape& shape = GetParam();
    Plan plan = cluster_plan({.workers = shape.ranks, .rack_size = shape.rack_size});
    plan.server_config.max_value_count = 16;
    plan.switch_config.max_value_count = 16;
    JobPlan& job = plan.jobs[0];
    job.max_value_count = 16;
    job.operations = every_kind(shape.ranks);
    job.max_in_flight = 6;
    if (shape.height == 0) job.parent.assign(shape.ranks, -1);
    if (shape.height == 1) job.uplink.assign(plan.switches, -1);
    if (shape.has_loss) {
      plan.path_faults = {{.loss = 0.01}};
      plan.heal = milliseconds(500);
    }
    if (shape.has_two_servers) {
      plan.servers = 2;
      plan.fabric.server_rack.push_back(plan.fabric.server_rack[0]);
      JobPlan second = job;
      second.first_stream = 2;
      second.server = 1;
      second.data_seed = 2;
      plan.jobs.push_back(second);
    }
    return plan;
  }
};

TEST_P(ManyRanks, GetTheResultsThatTheRulesDemandForEveryKindOfNumber) {
  World world(plan());
  expect_all_done(world);
}

INSTANTIATE_TEST_SUITE_P(
    VirtualNetwork, ManyRanks,
    testing::Values(Shape{.ranks = 16, .rack_size = 8, .height = 0, .has_loss = true},
                    Shape{.ranks = 64, .rack_size = 64, .height = 1, .has_loss = true},
                    Shape{.ranks = 64, .rack_size = 16, .has_loss = true, .has_two_servers = true},
                    Shape{.ranks = 65, .rack_size = 13},
                    Shape{.ranks = 256, .rack_size = 64, .height = 1},
                    Shape{.ranks = 256, .rack_size = 32, .has_loss = true},
                    Shape{.ranks = 1024, .rack_size = 32, .height = 0},
                    Shape{.ranks = 1024, .rack_size = 64, .height = 1},
                    Shape{
                        .ranks = 1024, .rack_size = 32, .has_loss = true, .has_two_servers = true}),
    name_of);

}  // namespace
}  // namespace atp::sim
