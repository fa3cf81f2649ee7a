#include "atp/planner/point_to_point.h"

#include <gtest/gtest.h>

#include "atp/planner/communication_matrix.h"
#include "atp/planner/planner.h"
#include "atp/planner/testing_interconnects.h"

namespace atp::planner {
namespace {

using testing::flat;
using testing::request_for;

// Two pairs on PCIe, with bridges between devices 0 and 2 and between 1 and 3. The ring in device
// order would cross PCIe on every hop, and the matrix has its speed.
TEST(PointToPoint, LimitsTheBandwidthOfTheLevels) {
  Request request = request_for(flat(4, gigabytes_per_second(50)));
  PointToPointMatrix matrix{4, std::vector<BytesPerSecond>(16, gigabytes_per_second(5))};
  for (const auto& [a, b] : {std::pair{0u, 2u}, {2u, 0u}, {1u, 3u}, {3u, 1u}}) {
    matrix.bandwidth[a * 4 + b] = gigabytes_per_second(50);
  }
  const double unlimited = evaluate(request, Mesh{2, 2}).value().cost.dimension1.seconds();
  request.interconnect.point_to_point = matrix;
  const Candidate candidate = evaluate(request, Mesh{2, 2}).value();
  // Dimension 1 connects 0 with 2 and 1 with 3, dimension 2 neighbours.
  EXPECT_DOUBLE_EQ(candidate.cost.dimension1.seconds(), unlimited);
  EXPECT_EQ(candidate.cost.dimension2.bottleneck.role, LinkRole::kPointToPoint);
  EXPECT_DOUBLE_EQ(candidate.cost.dimension2.bottleneck.seconds_per_byte, 1 / 5e9);
}

// The matrix has one hundredth of the switch's bandwidth, in every mode.
Request two_slow_devices() {
  Request request = request_for(flat(2, gigabytes_per_second(100)));
  request.interconnect.point_to_point =
      PointToPointMatrix{2, std::vector<BytesPerSecond>(4, gigabytes_per_second(1))};
  return request;
}

TEST(PointToPoint, CostsTheSameByLinkLoadsAndByTheEquations) {
  Request request = two_slow_devices();
  const LayerCost by_loads = evaluate(request, Mesh{2, 1}).value().cost;
  request.options.mode = CostMode::kPaper;
  const LayerCost by_equations = evaluate(request, Mesh{2, 1}).value().cost;
  EXPECT_DOUBLE_EQ(by_equations.seconds, by_loads.seconds);
  EXPECT_EQ(by_equations.dimension1.bottleneck.role, LinkRole::kPointToPoint);
  request.options.point_to_point_correction = false;
  EXPECT_DOUBLE_EQ(evaluate(request, Mesh{2, 1}).value().cost.seconds, by_loads.seconds / 100);
}

TEST(PointToPoint, LimitsTheRingsOfAContiguousMeshInTheEquations) {
  Request request = request_for(flat(4, gigabytes_per_second(100)), CostMode::kPaper);
  PointToPointMatrix matrix{4, std::vector<BytesPerSecond>(16, gigabytes_per_second(50))};
  matrix.bandwidth[1 * 4 + 3] = gigabytes_per_second(2);
  request.interconnect.point_to_point = matrix;
  // Dimension 1 of (2,2) connects 1 with 3; the ring of four has no such hop.
  const LayerCost cost = evaluate(request, Mesh{2, 2}).value().cost;
  EXPECT_DOUBLE_EQ(cost.dimension1.bottleneck.seconds_per_byte, 1 / 2e9);
  EXPECT_DOUBLE_EQ(cost.dimension2.bottleneck.seconds_per_byte, 1 / 50e9);
  const LayerCost ring = evaluate(request, Mesh{4, 1}).value().cost;
  EXPECT_DOUBLE_EQ(ring.dimension1.bottleneck.seconds_per_byte, 0.75 / 50e9);
}

TEST(PointToPoint, IsShownInTheCommunicationMatrix) {
  const CommunicationMatrix two = communication_matrix(two_slow_devices().interconnect).value();
  EXPECT_EQ(two.layers[0].at(0, 1), gigabytes_per_second(1));
  EXPECT_EQ(two.layers[0].group, gigabytes_per_second(1));

  Interconnect nodes =
      testing::two_levels(testing::switched("node", 2, 10), testing::switched("gpu", 2, 100));
  PointToPointMatrix matrix{4, std::vector<BytesPerSecond>(16, gigabytes_per_second(3))};
  matrix.bandwidth[2 * 4 + 3] = gigabytes_per_second(2);
  nodes.point_to_point = matrix;
  const CommunicationMatrix found = communication_matrix(nodes).value();
  EXPECT_EQ(found.layers[0].at(0, 1), gigabytes_per_second(10)) << "four pairs at 3 allow more";
  EXPECT_EQ(found.layers[1].at(0, 1), gigabytes_per_second(2)) << "in the second node";
  EXPECT_EQ(found.layers[1].at(1, 0), gigabytes_per_second(3));
  EXPECT_EQ(found.layers[1].group, gigabytes_per_second(2));
}

// Two nodes of two: between nodes every device sends only its half, at a quarter of the bandwidth.
TEST(PointToPoint, LimitsEachDevicesShareOfAHierarchicalAllReduce) {
  Interconnect nodes =
      testing::two_levels(testing::switched("node", 2, 100), testing::switched("gpu", 2, 100));
  PointToPointMatrix matrix{4, std::vector<BytesPerSecond>(16, {1})};
  for (const auto& [a, b] : {std::pair{0u, 2u}, {2u, 0u}, {1u, 3u}, {3u, 1u}}) {
    matrix.bandwidth[a * 4 + b] = {0.25};
  }
  nodes.point_to_point = matrix;
  const auto seconds = all_reduce_seconds(nodes, {{2, 1}, {2, 1}}, Dimension::k1, 1,
                                          CollectiveSet::only(Collective::kHierarchical), 4);
  EXPECT_DOUBLE_EQ(seconds.value(), 0.5 / 0.25);
}

TEST(PointToPoint, LimitsEveryHopOfARingWithHalfTheVolumePerDirection) {
  Interconnect network = flat(4, {100});
  network.point_to_point = PointToPointMatrix{4, std::vector<BytesPerSecond>(16, {100})};
  const auto seconds = [&network](std::uint32_t from, std::uint32_t to, double bandwidth) {
    PointToPointMatrix matrix = *network.point_to_point;
    matrix.bandwidth[from * 4 + to] = {bandwidth};
    Interconnect changed = network;
    changed.point_to_point = matrix;
    return all_reduce_seconds(changed, {{4, 1}}, Dimension::k1, 1,
                              CollectiveSet::only(Collective::kRing), 4)
        .value();
  };
  EXPECT_DOUBLE_EQ(seconds(0, 1, 1), 0.75);
  EXPECT_DOUBLE_EQ(seconds(0, 3, 1), 0.75) << "the ring also runs backwards";
  EXPECT_DOUBLE_EQ(seconds(0, 2, 1), 0.015) << "not neighbours";
  EXPECT_DOUBLE_EQ(seconds(0, 1, 0), 0.015) << "0 is no limit";
}

}  // namespace
}  // namespace atp::planner
