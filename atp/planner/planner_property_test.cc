// Properties of every interconnect, checked on random ones.

#include <gtest/gtest.h>

#include "atp/base/random.h"
#include "atp/planner/search.h"
#include "atp/planner/testing_interconnects.h"

namespace atp::planner {
namespace {

using testing::request_for;

constexpr int kTries = 400;

Aggregation random_aggregation(Random& random) {
  Aggregation aggregation;
  aggregation.payload_bytes = 1024;
  aggregation.header_bytes = static_cast<std::uint32_t>(random.below(200));
  if (random.chance(0.5)) aggregation.placement = ServerPlacement::kColocated;
  aggregation.server_hosts = static_cast<std::uint32_t>(random.below(4));
  if (random.chance(0.3)) {
    aggregation.slots = 64;
    aggregation.window = static_cast<std::uint32_t>(1 + random.below(64));
  }
  if (random.chance(0.3)) aggregation.server_bandwidth = {1 + random.uniform()};
  return aggregation;
}

Interconnect random_interconnect(Random& random) {
  Interconnect interconnect;
  const std::size_t levels = 1 + random.below(4);
  bool torus = false;
  for (std::size_t index = 0; index < levels; ++index) {
    Level level{.name = "level " + std::to_string(index)};
    level.kind = torus ? LevelKind::kTorus : static_cast<LevelKind>(random.below(5));
    torus = level.kind == LevelKind::kTorus;
    level.count =
        level.kind == LevelKind::kPairs ? 2 : static_cast<std::uint32_t>(1 + random.below(6));
    level.bandwidth = {1 + 99 * random.uniform()};
    if (level.kind == LevelKind::kSwitch && random.chance(0.5)) {
      level.aggregation = random_aggregation(random);
    }
    interconnect.levels.push_back(level);
  }
  return interconnect;
}

CollectiveSet random_collectives(Random& random) {
  const bool in_network = random.chance(0.5);
  return {.ring = !in_network || random.chance(0.5),
          .hierarchical = random.chance(0.5),
          .in_network = in_network};
}

CostMode random_mode(Random& random) {
  const double choice = random.uniform();
  if (choice < 0.7) return CostMode::kLinkLoad;
  return choice < 0.85 ? CostMode::kPaper : CostMode::kPaperLiteral;
}

// A model that can be split on meshes of up to 6^4 devices.
Request divisible_request(Interconnect interconnect, CostMode mode) {
  Request request = request_for(std::move(interconnect), mode);
  request.model.heads = 256 * 81 * 25;
  request.model.hidden = request.model.heads;
  request.workload.batch = request.model.heads;
  return request;
}

Request random_request(Random& random) {
  const Interconnect interconnect = random_interconnect(random);
  Request request = divisible_request(interconnect, random_mode(random));
  request.options.volume = random.chance(0.5) ? Volume::kExact : Volume::kEquation2;
  request.options.fused = request.options.mode == CostMode::kLinkLoad &&
                          request.options.volume == Volume::kExact && random.chance(0.5);
  return request;
}

double seconds(const Request& request) {
  const auto found = plan(request);
  EXPECT_TRUE(found.ok()) << found.error().message;
  return found.value().best.cost.seconds;
}

TEST(Property, MoreBandwidthNeverCostsMore) {
  Random random(11);
  for (int attempt = 0; attempt < kTries; ++attempt) {
    Request request = random_request(random);
    const double before = seconds(request);
    auto& levels = request.interconnect.levels;
    levels[random.below(levels.size())].bandwidth.value *= 1 + 3 * random.uniform();
    EXPECT_LE(seconds(request), before * (1 + 1e-12)) << attempt;
  }
}

// A reduce-scatter never costs more than the all-reduce it replaces.
TEST(Property, FusingNeverCostsMore) {
  Random random(18);
  for (int attempt = 0; attempt < kTries; ++attempt) {
    Request request = random_request(random);
    request.options.mode = CostMode::kLinkLoad;
    request.options.volume = Volume::kExact;
    request.options.dimension2 = random_collectives(random);
    for (Level& level : request.interconnect.levels) level.latency_s = random.uniform() * 1e6;
    for (const Mesh mesh : meshes_of(device_count(request.interconnect))) {
      request.options.fused = false;
      const auto plain = evaluate(request, mesh);
      request.options.fused = true;
      const auto fused = evaluate(request, mesh);
      ASSERT_EQ(plain.ok(), fused.ok());
      if (!plain.ok()) continue;
      EXPECT_LE(fused.value().cost.seconds, plain.value().cost.seconds * (1 + 1e-12)) << attempt;
    }
  }
}

TEST(Property, ScalingAllBandwidthsScalesOnlyTheTime) {
  Random random(12);
  for (int attempt = 0; attempt < kTries; ++attempt) {
    Request request = random_request(random);
    const Plan before = plan(request).value();
    for (Level& level : request.interconnect.levels) {
      level.bandwidth.value *= 8;
      if (level.aggregation) level.aggregation->server_bandwidth.value *= 8;
    }
    const Plan after = plan(request).value();
    EXPECT_DOUBLE_EQ(after.best.cost.seconds * 8, before.best.cost.seconds);
    EXPECT_EQ(after.best.mesh, before.best.mesh);
    EXPECT_EQ(after.best.layout, before.best.layout);
  }
}

// This does not hold for equation 3 as printed, which counts layers.
TEST(Property, ALevelWithOneChildChangesNothing) {
  Random random(13);
  for (int attempt = 0; attempt < kTries; ++attempt) {
    Request request = random_request(random);
    if (request.options.mode == CostMode::kPaperLiteral) continue;
    const Plan before = plan(request).value();
    auto& levels = request.interconnect.levels;
    std::size_t place = 0;  // not between torus levels
    while (place < levels.size() && levels[place].kind != LevelKind::kTorus && random.chance(0.5)) {
      ++place;
    }
    levels.insert(levels.begin() + static_cast<std::ptrdiff_t>(place),
                  Level{.name = "chassis", .count = 1, .bandwidth = {1e12}});
    const Plan after = plan(request).value();
    EXPECT_NEAR(after.best.cost.seconds, before.best.cost.seconds,
                1e-12 * before.best.cost.seconds);
    EXPECT_EQ(after.best.mesh, before.best.mesh);
  }
}

TEST(Property, ThePlanIsTheBestLayout) {
  Random random(14);
  for (int attempt = 0; attempt < kTries; ++attempt) {
    Request request = random_request(random);
    request.options.mode = CostMode::kLinkLoad;
    const Plan found = plan(request).value();
    MeshLayout layout;
    for (const Level& level : request.interconnect.levels) {
      std::uint32_t d1 = 0;
      do {
        d1 = static_cast<std::uint32_t>(1 + random.below(level.count));
      } while (level.count % d1 != 0);
      layout.push_back({d1, level.count / d1});
    }
    const Candidate other = evaluate(request, layout).value();
    EXPECT_LE(found.best.cost.seconds, other.cost.seconds * (1 + 1e-11));
    EXPECT_LE(evaluate(request, other.mesh).value().cost.seconds, other.cost.seconds * (1 + 1e-11));
  }
}

// Devices of one switch are interchangeable: a matrix with the entries of the levels, in any order
// of the siblings, changes nothing.
TEST(Property, RelabellingEqualDevicesChangesNothing) {
  Random random(15);
  for (int attempt = 0; attempt < 100; ++attempt) {
    const auto outer = static_cast<std::uint32_t>(2 + random.below(3));
    const auto inner = static_cast<std::uint32_t>(2 + random.below(3));
    Request request = divisible_request(testing::two_levels(testing::switched("node", outer, 10),
                                                            testing::switched("gpu", inner, 40)),
                                        CostMode::kLinkLoad);
    const Plan before = plan(request).value();
    const std::uint32_t devices = outer * inner;
    const auto turn = static_cast<std::uint32_t>(random.below(outer));
    // Swaps the nodes, and reverses the devices of each.
    const auto label = [&](std::uint32_t device) {
      return (device / inner + turn) % outer * inner + (inner - 1 - device % inner);
    };
    PointToPointMatrix matrix{.size = devices};
    for (std::uint32_t from = 0; from < devices; ++from) {
      for (std::uint32_t to = 0; to < devices; ++to) {
        const bool same_node = label(from) / inner == label(to) / inner;
        matrix.bandwidth.push_back(gigabytes_per_second(same_node ? 40 : 10));
      }
    }
    request.interconnect.point_to_point = matrix;
    const Plan after = plan(request).value();
    EXPECT_EQ(after.best.mesh, before.best.mesh);
    EXPECT_EQ(after.best.layout, before.best.layout);
    EXPECT_DOUBLE_EQ(after.best.cost.seconds, before.best.cost.seconds);
  }
}

TEST(Property, NamesAndRepeatedRunsChangeNothing) {
  Random random(16);
  for (int attempt = 0; attempt < 50; ++attempt) {
    Request request = random_request(random);
    const Plan first = plan(request).value();
    for (Level& level : request.interconnect.levels) level.name = "renamed";
    const Plan second = plan(request).value();
    EXPECT_EQ(first.best.mesh, second.best.mesh);
    EXPECT_EQ(first.best.layout, second.best.layout);
    EXPECT_EQ(first.best.cost.seconds, second.best.cost.seconds);
    ASSERT_EQ(first.runners_up.size(), second.runners_up.size());
    for (std::size_t place = 0; place < first.runners_up.size(); ++place) {
      EXPECT_EQ(first.runners_up[place].mesh, second.runners_up[place].mesh);
    }
  }
}

TEST(Property, ACheaperMeshComesFirst) {
  Random random(17);
  for (int attempt = 0; attempt < 100; ++attempt) {
    const Plan found = plan(random_request(random)).value();
    double last = found.best.cost.seconds;
    for (const Candidate& candidate : found.runners_up) {
      EXPECT_GE(candidate.cost.seconds, last * (1 - 1e-11));
      last = candidate.cost.seconds;
    }
    EXPECT_GE(found.gain_over_one_dimensional, 1 - 1e-11);
  }
}

}  // namespace
}  // namespace atp::planner
