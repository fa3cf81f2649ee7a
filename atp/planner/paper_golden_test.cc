// The numbers of the paper (docs/plan/planner.md) that need no GPU, with corrections where the
// paper's arithmetic is wrong.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "atp/planner/communication_matrix.h"
#include "atp/planner/paper_model.h"
#include "atp/planner/testing_interconnects.h"

namespace atp::planner {
namespace {

using testing::figure_7a;
using testing::figure_7b;
using testing::flat;
using testing::linked;
using testing::request_for;
using testing::switched;
using testing::two_levels;

double gigabytes(BytesPerSecond rate) { return rate.value / 1e9; }

double paper_units(Interconnect interconnect, Mesh mesh, bool correction = true,
                   CostMode mode = CostMode::kPaper) {
  Request request = request_for(std::move(interconnect), mode);
  request.options.point_to_point_correction = correction;
  return testing::units(request, evaluate(request, mesh).value());
}

Mesh paper_best(Interconnect interconnect, CostMode mode = CostMode::kPaper) {
  return plan(request_for(std::move(interconnect), mode)).value().best.mesh;
}

TEST(Figure7, A_HasNodesOfFullyConnectedGpus) {
  const CommunicationMatrix matrix = communication_matrix(figure_7a()).value();
  ASSERT_EQ(matrix.layers.size(), 2u);
  EXPECT_EQ(gigabytes(matrix.layers[0].group), 25);
  EXPECT_EQ(gigabytes(matrix.layers[1].group), 600);
  EXPECT_EQ(matrix.layers[0].devices_per_child, 4u);
  for (std::uint32_t from = 0; from < 4; ++from) {
    for (std::uint32_t to = 0; to < 4; ++to) {
      EXPECT_EQ(gigabytes(matrix.layers[0].at(from, to)), from == to ? 0 : 25);
      EXPECT_EQ(gigabytes(matrix.layers[1].at(from, to)), from == to ? 0 : 200);
    }
  }
}

TEST(Figure7, B_HasRingsOfRings) {
  const CommunicationMatrix matrix = communication_matrix(figure_7b()).value();
  EXPECT_EQ(gigabytes(matrix.layers[0].group), 200);
  EXPECT_EQ(gigabytes(matrix.layers[1].group), 50);
  const double ring[4][4] = {{0, 1, 0, 1}, {1, 0, 1, 0}, {0, 1, 0, 1}, {1, 0, 1, 0}};
  for (std::uint32_t from = 0; from < 4; ++from) {
    for (std::uint32_t to = 0; to < 4; ++to) {
      EXPECT_EQ(gigabytes(matrix.layers[0].at(from, to)), 100 * ring[from][to]);
      EXPECT_EQ(gigabytes(matrix.layers[1].at(from, to)), 25 * ring[from][to]);
    }
  }
}

struct BandwidthCase {
  const char* name;
  Interconnect interconnect;
  Mesh mesh;
  CostMode mode;
  bool correction;
  double b1;  // GB/s; 0: the dimension has one rank
  double b2;
};

class Equation3 : public ::testing::TestWithParam<BandwidthCase> {};

TEST_P(Equation3, GivesTheBandwidthsOfTheLinks) {
  const BandwidthCase& given = GetParam();
  const PaperBandwidths found =
      paper_bandwidths(given.interconnect, given.mesh, given.mode, given.correction);
  if (given.b1 > 0) {
    EXPECT_DOUBLE_EQ(gigabytes(found.dimension1.bandwidth), given.b1);
  }
  if (given.b2 > 0) {
    EXPECT_DOUBLE_EQ(gigabytes(found.dimension2.bandwidth), given.b2);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Table, Equation3,
    ::testing::Values(
        BandwidthCase{"TwoGpusOfANodeAreLimitedByTheirPair",
                      figure_7a(),
                      {8, 2},
                      CostMode::kPaper,
                      true,
                      12.5,
                      200},
        BandwidthCase{"WithoutThePairTheGroupBandwidthStands",
                      figure_7a(),
                      {8, 2},
                      CostMode::kPaper,
                      false,
                      12.5,
                      600},
        BandwidthCase{"PrintedRuleAgreesOnThePapersExample",
                      figure_7a(),
                      {8, 2},
                      CostMode::kPaperLiteral,
                      true,
                      12.5,
                      200},
        BandwidthCase{
            "AWholeNodeStaysInside", figure_7a(), {4, 4}, CostMode::kPaper, true, 6.25, 600},
        BandwidthCase{"PrintedIndexRuleSendsAWholeNodeOutside",
                      figure_7a(),
                      {4, 4},
                      CostMode::kPaperLiteral,
                      true,
                      6.25,
                      25},
        BandwidthCase{
            "OneDimensionIsNotShared", figure_7a(), {16, 1}, CostMode::kPaper, true, 25, 0},
        BandwidthCase{"MoreColumnsThanANodeHasGpusShareByNode",
                      figure_7a(),
                      {2, 8},
                      CostMode::kPaper,
                      true,
                      6.25,
                      25},
        BandwidthCase{"FlatSwitchIsNotShared",
                      flat(16, gigabytes_per_second(25)),
                      {8, 2},
                      CostMode::kPaper,
                      true,
                      25,
                      25},
        BandwidthCase{"PrintedSharingHalvesAFlatSwitch",
                      flat(16, gigabytes_per_second(25)),
                      {8, 2},
                      CostMode::kPaperLiteral,
                      true,
                      12.5,
                      25},
        BandwidthCase{
            "TorusGivesGroupBandwidthToAll", figure_7b(), {8, 2}, CostMode::kPaper, false, 50, 50},
        BandwidthCase{"TorusPairHasOneLink", figure_7b(), {8, 2}, CostMode::kPaper, true, 50, 25},
        BandwidthCase{"TorusRowsAndColumns", figure_7b(), {4, 4}, CostMode::kPaper, true, 50, 50},
        BandwidthCase{"TorusOneDimension", figure_7b(), {16, 1}, CostMode::kPaper, true, 50, 0},
        BandwidthCase{"TorusWideColumns", figure_7b(), {2, 8}, CostMode::kPaper, false, 50, 50}),
    [](const auto& each) { return each.param.name; });

TEST(Ic1, CalibratedBandwidthsMakeMesh24Save45Percent) {
  Interconnect machine = flat(8, gigabytes_per_second(16));
  machine.measured = {{{2, 4}, {{gigabytes_per_second(1.20)}}, {{gigabytes_per_second(4.95)}}},
                      {{8, 1}, {{gigabytes_per_second(0.97)}}, {}}};
  for (const CostMode mode : {CostMode::kPaper, CostMode::kLinkLoad}) {
    const Request request = request_for(machine, mode);
    const Candidate two_four = evaluate(request, Mesh{2, 4}).value();
    const Candidate eight_one = evaluate(request, Mesh{8, 1}).value();
    EXPECT_TRUE(two_four.measured);
    const double ours = testing::gigabyte_units(request, two_four);
    const double megatron = testing::gigabyte_units(request, eight_one);
    EXPECT_NEAR(ours, 1.1237, 5e-5);
    EXPECT_NEAR(megatron, 2.0619, 5e-5);
    EXPECT_NEAR(1 - ours / megatron, 0.455, 5e-4);  // the paper prints 46 %
  }
}

Interconnect ic2(double nvlink, double pcie) {
  return two_levels(switched("pcie", 4, pcie), linked("nvlink", 2, LevelKind::kPairs, nvlink));
}

// The paper selects (8, 1), overlooking that the terms of equation 4 differ. By its own equations
// (4, 2) is better once NVLink is 3.5 times as fast as PCIe, and it is 9.4 times as fast.
TEST(Ic2, Mesh42WinsAboveARatioOf3_5) {
  EXPECT_EQ(paper_best(ic2(600, 64)), (Mesh{4, 2}));
  EXPECT_EQ(paper_best(ic2(3.49 * 64, 64)), (Mesh{8, 1}));
  EXPECT_EQ(paper_best(ic2(3.5 * 64, 64)), (Mesh{8, 1})) << "a tie: the larger d1 wins";
  EXPECT_EQ(paper_best(ic2(3.51 * 64, 64)), (Mesh{4, 2}));
  const double gain = 1 - paper_units(ic2(600, 64), {4, 2}) / paper_units(ic2(600, 64), {8, 1});
  EXPECT_NEAR(gain, 0.09, 0.005);
}

// The paper names ATP-1 for 8 GPUs on one switch; by equations 2 and 4, ATP-2 costs 7 % less.
TEST(Ic3, EightOnASwitchAreBestAs42) {
  const Interconnect machine = flat(8, {1});
  EXPECT_DOUBLE_EQ(paper_units(machine, {8, 1}), 3.5);
  EXPECT_DOUBLE_EQ(paper_units(machine, {4, 2}), 3.25);
  EXPECT_EQ(paper_best(machine), (Mesh{4, 2}));
}

TEST(Ic4, SixteenOnASwitchAreBestAs82) {
  const Interconnect cluster = flat(16, {1});
  EXPECT_DOUBLE_EQ(paper_units(cluster, {16, 1}), 3.75);
  EXPECT_DOUBLE_EQ(paper_units(cluster, {8, 2}), 2.625);
  EXPECT_DOUBLE_EQ(paper_units(cluster, {4, 4}), 3.375);
  EXPECT_EQ(paper_best(cluster), (Mesh{8, 2}));
}

double figure_12(double d1, double d2) { return (14 * d2 + 4 * d1 - 18) / (d1 * d2); }

TEST(Ic5, OneSwitchFollowsTheFormulaOf5_4) {
  for (std::uint32_t devices = 2; devices <= 1024; ++devices) {
    for (std::uint32_t d2 = 1; d2 <= devices; ++d2) {
      if (devices % d2 != 0) continue;
      const Mesh mesh{devices / d2, d2};
      EXPECT_NEAR(paper_units(flat(devices, {1}), mesh), figure_12(mesh.d1, mesh.d2), 1e-12)
          << mesh.d1 << " x " << mesh.d2;
    }
  }
}

TEST(Ic6, TorusFollowsTheFormulaWithoutThePairCorrection) {
  for (const std::uint32_t d2 : {1u, 2u, 4u, 8u}) {
    const Mesh mesh{16 / d2, d2};
    EXPECT_NEAR(paper_units(figure_7b(), mesh, false) * 50e9, figure_12(mesh.d1, d2), 1e-12);
  }
  EXPECT_NEAR(paper_units(figure_7b(), {8, 2}, false) * 1e9, 0.0525, 1e-12);
}

// Two neighbours on a torus have one link, not GroupBW's two, so (4, 4) is best and not ATP-2.
TEST(Ic6, PairCorrectionMakes44Best) {
  EXPECT_NEAR(paper_units(figure_7b(), {8, 2}) * 1e9, 0.0700, 1e-12);
  EXPECT_NEAR(paper_units(figure_7b(), {4, 4}) * 1e9, 0.0675, 1e-12);
  EXPECT_EQ(paper_best(figure_7b()), (Mesh{4, 4}));
}

TEST(Figure12, Curves) {
  for (std::uint32_t devices = 4; devices <= 1024; devices *= 2) {
    const Interconnect one_switch = flat(devices, {1});
    const double n = devices;
    EXPECT_NEAR(paper_units(one_switch, {devices, 1}), 4 - 4 / n, 1e-12);
    EXPECT_NEAR(paper_units(one_switch, {devices / 2, 2}), 2 + 10 / n, 1e-12);
    EXPECT_NEAR(paper_units(one_switch, {devices / 4, 4}), 1 + 38 / n, 1e-12);
  }
}

TEST(Figure12, OptimaAndTheirCosts) {
  struct Row {
    Mesh mesh;
    double cost;
  };
  const Row rows[] = {{{4, 1}, 3.0},    {{4, 2}, 3.25},    {{8, 2}, 2.625},
                      {{8, 4}, 2.1875}, {{16, 4}, 1.594},  {{16, 8}, 1.234},
                      {{32, 8}, 0.867}, {{32, 16}, 0.652}, {{64, 16}, 0.451}};
  for (const Row& row : rows) {
    const auto devices = static_cast<std::uint32_t>(row.mesh.size());
    const Request request = request_for(flat(devices, {1}), CostMode::kPaper);
    const Plan found = plan(request).value();
    EXPECT_EQ(found.best.mesh, row.mesh) << devices;
    EXPECT_NEAR(testing::units(request, found.best), row.cost, 5e-4) << devices;
  }
}

// 4 - 4/N = 2 + 10/N at N = 7, 2 + 10/N = 1 + 38/N at 28, and ATP-4 meets ATP-8 at 112.
TEST(Figure12, CurvesCrossAt7And28And112) {
  const auto cost = [](double n, double d2) { return figure_12(n / d2, d2); };
  EXPECT_NEAR(cost(7, 1), cost(7, 2), 1e-12);
  EXPECT_NEAR(cost(28, 2), cost(28, 4), 1e-12);
  EXPECT_NEAR(cost(112, 4), cost(112, 8), 1e-12);
  EXPECT_NEAR(paper_units(flat(28, {1}), {14, 2}), paper_units(flat(28, {1}), {7, 4}), 1e-12);
  EXPECT_NEAR(paper_units(flat(112, {1}), {28, 4}), paper_units(flat(112, {1}), {14, 8}), 1e-12);
  EXPECT_LT(paper_units(flat(6, {1}), {6, 1}), paper_units(flat(6, {1}), {3, 2}));
  EXPECT_GT(paper_units(flat(8, {1}), {8, 1}), paper_units(flat(8, {1}), {4, 2}));
}

// Always dividing by d2 rules out every second dimension, which contradicts §5.3 and Fig. 12.
TEST(LiteralEquation3, PicksOneDimensionOnEveryFlatSwitch) {
  for (std::uint32_t devices = 2; devices <= 1024; devices *= 2) {
    EXPECT_EQ(paper_best(flat(devices, {1}), CostMode::kPaperLiteral), (Mesh{devices, 1}));
  }
}

TEST(Table2, ParametersAndOperations) {
  struct Row {
    std::uint32_t hidden;
    std::uint32_t heads;
    double billion;  // 2^20 * 1000
    double tera;     // 2^40
  };
  const Row rows[] = {{2048, 16, 0.048, 2.625},
                      {4096, 32, 0.192, 9.75},
                      {8192, 64, 0.768, 37.5},
                      {12288, 96, 1.728, 83.25}};
  for (const Row& row : rows) {
    const Transformer model{.hidden = row.hidden, .layers = 1, .heads = row.heads};
    EXPECT_DOUBLE_EQ(layer_parameters(model) / 0x1p20 / 1000, row.billion);
    EXPECT_DOUBLE_EQ(layer_flops(model, {.batch = 4, .sequence = 2048}) / 0x1p40, row.tera);
  }
}

// §2.3 and §5.4: Megatron's layout is ATP-1, and its cost rises to 4.
TEST(PaperMode, OneDimensionIsFourAllReduces) {
  const Request request = request_for(flat(8, {1}), CostMode::kPaper);
  const Candidate megatron = evaluate(request, Mesh{8, 1}).value();
  EXPECT_EQ(megatron.cost.dimension1.collectives, 4);
  EXPECT_EQ(megatron.cost.dimension1.bytes,
            4.0 * static_cast<double>(request.workload.tokens()) * request.model.hidden);
  EXPECT_EQ(megatron.cost.dimension2.collective, Collective::kNone);
}

}  // namespace
}  // namespace atp::planner
