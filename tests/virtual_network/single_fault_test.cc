#include <map>
#include <set>

#include "tests/virtual_network/scenario.h"

// Exhaustive small runs: every single packet of a run in turn is lost, doubled or delayed, and
// every pair of packets is lost. So each type of packet on each hop is covered without listing
// them.

namespace atp::sim {
namespace {

struct Attack {
  const char* name;
  Verdict verdict;
};

// One operation of each kind: integer, average, and overflow into the float path.
Plan varied_plan(std::uint16_t world_size) {
  Plan plan = small_plan(world_size, {10, 21, 8, 3, 0, 12});
  plan.jobs[0].operations[1].spec.reduction = Reduction::kAverage;
  plan.jobs[0].operations[2].values = Values::kHuge;
  plan.jobs[0].operations[4].in_place = true;
  return plan;
}

// Runs the plan with `attack` on the packets numbered in `victims`; returns how many packets were
// sent in total.
std::uint64_t run_with(const Plan& plan, const std::set<std::uint64_t>& victims,
                       const Verdict& attack, std::map<int, int>* types = nullptr) {
  World world(plan);
  std::uint64_t number = 0;
  world.set_tap([&](const Packet& packet) {
    const bool hit = victims.contains(number++);
    if (hit && types != nullptr) ++(*types)[packet.bytes[ATP_AT_TYPE]];
    return hit ? attack : Verdict{};
  });
  expect_all_done(world);
  return number;
}

class AnySinglePacket : public testing::TestWithParam<Attack> {};

TEST_P(AnySinglePacket, MayHaveThisFault) {
  const Plan plan = varied_plan(3);
  const std::uint64_t packets = run_with(plan, {}, {});
  std::map<int, int> types;
  for (std::uint64_t n = 0; n < packets && !HasFailure(); ++n) {
    SCOPED_TRACE("packet " + std::to_string(n));
    run_with(plan, {n}, GetParam().verdict, &types);
  }
  for (const int type :
       {ATP_GRADIENT, ATP_PARAMETER, ATP_NACK, ATP_JOIN, ATP_JOIN_ACK, ATP_LEAVE, ATP_STATUS}) {
    EXPECT_GT(types[type], 0) << to_string(static_cast<PacketType>(type));
  }
}

const Attack kAttacks[] = {
    {"lost", {.drop = true}},
    {"doubled", {.extra_copies = 1}},
    {"late_by_100_us", {.delay = microseconds(100)}},
    {"late_by_60_ms", {.delay = milliseconds(60)}},
    {"late_by_1_s", {.delay = seconds(1)}},
    {"doubled_and_late", {.delay = milliseconds(40), .extra_copies = 1}},
};
INSTANTIATE_TEST_SUITE_P(VirtualNetwork, AnySinglePacket, testing::ValuesIn(kAttacks),
                         [](const auto& instance) { return instance.param.name; });

TEST(VirtualNetwork, AnyTwoPacketsMayBeLost) {
  Plan plan = small_plan(2, {8});
  const std::uint64_t packets = run_with(plan, {}, {});
  for (std::uint64_t a = 0; a < packets && !testing::Test::HasFailure(); ++a) {
    for (std::uint64_t b = a + 1; b < packets + 4; ++b) {
      SCOPED_TRACE("packets " + std::to_string(a) + " and " + std::to_string(b));
      run_with(plan, {a, b}, {.drop = true});
    }
  }
}

TEST(VirtualNetwork, WithoutASwitchAnySinglePacketMayBeLost) {
  Plan plan = varied_plan(2);
  plan.switches = 0;
  const std::uint64_t packets = run_with(plan, {}, {});
  for (std::uint64_t n = 0; n < packets && !testing::Test::HasFailure(); ++n) {
    SCOPED_TRACE("packet " + std::to_string(n));
    run_with(plan, {n}, {.drop = true});
  }
}

void expect_same_nodes(World& first, World& second) {
  const Plan& plan = first.plan();
  for (std::uint32_t i = 0; i < plan.servers; ++i) EXPECT_EQ(first.server(i), second.server(i));
  for (std::uint32_t i = 0; i < plan.switches; ++i) {
    EXPECT_EQ(first.switch_node(i), second.switch_node(i));
  }
  for (std::uint32_t job = 0; job < plan.jobs.size(); ++job) {
    for (Rank rank = 0; rank < plan.jobs[job].world_size; ++rank) {
      EXPECT_EQ(first.worker(rank, job), second.worker(rank, job));
    }
  }
}

TEST(VirtualNetwork, TheSamePlanGivesTheSamePacketsAndLeavesTheSameNodes) {
  for (const std::uint64_t seed : {3, 14, 159}) {
    const Plan plan = draw_plan(seed);
    World first(plan);
    World second(plan);
    first.start_digest();
    second.start_digest();
    first.run_to_completion();
    second.run_to_completion();
    EXPECT_EQ(first.digest(), second.digest());
    EXPECT_EQ(first.packets_sent(), second.packets_sent());
    expect_same_nodes(first, second);
  }
}

}  // namespace
}  // namespace atp::sim
