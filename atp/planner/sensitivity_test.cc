#include "atp/planner/sensitivity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "atp/planner/planner.h"
#include "atp/planner/testing_interconnects.h"

namespace atp::planner {
namespace {

using testing::flat;
using ::testing::HasSubstr;
using testing::request_for;

TEST(Sensitivity, FindsTheRatioAtWhichTheMeshChanges) {
  Request request =
      request_for(testing::two_levels(testing::switched("pcie", 4, 64),
                                      testing::linked("nvlink", 2, LevelKind::kPairs, 600)),
                  CostMode::kPaper);
  request.options.sensitivities = true;
  const Plan found = plan(request).value();
  ASSERT_EQ(found.best.mesh, (Mesh{4, 2}));
  bool has_seen = false;
  for (const Sensitivity& change : found.sensitivities) {
    if (change.quantity != Sensitivity::Quantity::kBandwidth || change.level != 1) continue;
    has_seen = true;
    EXPECT_NEAR(change.factor, 3.5 * 64 / 600, 1e-5);
    EXPECT_EQ(change.mesh, (Mesh{8, 1}));
    EXPECT_THAT(change.text,
                HasSubstr("times the bandwidth of 'nvlink', mesh (8,1) would be best"));
  }
  EXPECT_TRUE(has_seen);
}

TEST(Sensitivity, ReportsWhatAggregationWouldChange) {
  Request request = request_for(flat(8, {1}));
  request.model.bytes_per_element = 4;
  request.options.sensitivities = true;
  const Plan found = plan(request).value();
  ASSERT_EQ(found.sensitivities.size(), 1u);
  EXPECT_EQ(found.sensitivities[0].quantity, Sensitivity::Quantity::kAggregation);
  EXPECT_EQ(found.sensitivities[0].mesh, (Mesh{8, 1}));
  EXPECT_EQ(found.sensitivities[0].text,
            "if the switches of 'network' aggregated int32 values over Ethernet, with enough "
            "servers, mesh (8,1) would be best: innetwork on dimension 1");
}

TEST(Sensitivity, PcieSwitchesAreNotAssumedToAggregate) {
  Request request = request_for(flat(8, {1}));
  request.model.bytes_per_element = 4;
  request.options.sensitivities = true;
  request.interconnect.levels[0].name = "GPU on PCIe";
  EXPECT_TRUE(plan(request).value().sensitivities.empty());
}

// The bottleneck is between the two boxes: aggregation inside them would only save some latency.
TEST(Sensitivity, SavingAFewLatenciesIsNotReported) {
  Request request = request_for(
      testing::two_levels(testing::switched("box", 2, 100), testing::switched("gpu", 8, 300)));
  request.interconnect.levels[1].latency_s = 2e-6;
  request.model.bytes_per_element = 4;
  request.options.sensitivities = true;
  const auto gain_inside = [&request] {
    const Plan found = plan(request).value();
    for (const Sensitivity& change : found.sensitivities) {
      if (change.quantity == Sensitivity::Quantity::kAggregation && change.level == 1) return true;
    }
    return false;
  };
  EXPECT_FALSE(gain_inside());
  request.interconnect.levels[1].latency_s = 2e-3;
  EXPECT_TRUE(gain_inside()) << "saving many latencies is";
}

// Packets for this project's switches take four bytes per value.
TEST(Sensitivity, AggregationWouldNotChangeHalfPrecision) {
  Request request = request_for(flat(8, {1}));
  request.model.bytes_per_element = 2;
  request.options.sensitivities = true;
  EXPECT_TRUE(plan(request).value().sensitivities.empty());
}

// (4, 1) moves 3.0 units in 24 latencies, (2, 2) 4.5 units in 18.
TEST(Sensitivity, FewTokensPreferFewSteps) {
  Interconnect network = flat(4, gigabytes_per_second(10));
  network.levels[0].latency_s = 1e-4;
  Request request = request_for(network);
  request.options.sensitivities = true;
  const Plan found = plan(request).value();
  ASSERT_EQ(found.best.mesh, (Mesh{4, 1}));
  const double turn = 6e-4 / (1.5 * testing::layer_unit(request) / 10e9);
  bool has_seen = false;
  for (const Sensitivity& change : found.sensitivities) {
    if (change.quantity != Sensitivity::Quantity::kTokens) continue;
    has_seen = true;
    EXPECT_EQ(change.mesh, (Mesh{2, 2}));
    EXPECT_NEAR(change.factor / turn, 1, 1e-5);
  }
  EXPECT_TRUE(has_seen);
}

}  // namespace
}  // namespace atp::planner
