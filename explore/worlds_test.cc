#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "explore/world.h"

// The worlds with several places are worth exploring only if their fragments meet as the worlds
// say. A fragment's home follows from a hash of its job's key.

namespace atp::explore {
namespace {

struct Gradient {
  std::size_t job = 0;
  Rank rank = 0;
  std::uint64_t sequence = 0;
};

// Delivers one of the GRADIENTs that are in flight when the world begins.
void deliver(World& world, State& state, const Gradient& gradient) {
  const Cluster& cluster = world.cluster();
  HostId from = 0;
  while (cluster.job_of(from) != gradient.job) ++from;
  from = static_cast<HostId>(from + gradient.rank);
  for (const PacketPool::Id id : state.packets) {
    const ParsedPacket parsed = parse_packet(cluster.packets()[id].bytes);
    if (cluster.packets()[id].from != from) continue;
    if (parsed.view().header.sequence != gradient.sequence) continue;
    EXPECT_THAT(world.make({MoveKind::kDeliver, id}, state), testing::IsEmpty());
    return;
  }
  ADD_FAILURE() << "no such packet";
}

SwitchNode switch_after(const char* name, const std::vector<Gradient>& arrivals) {
  World world(*find_world(name));
  State state = world.first();
  for (const Gradient& gradient : arrivals) deliver(world, state, gradient);
  const HostId host = world.cluster().worker_count();
  return std::get<SwitchNode>(world.cluster().nodes(host).get(state.nodes[host]));
}

constexpr int kNone = -1;

struct Row {
  const char* name;
  const char* world;
  std::vector<Gradient> arrivals;  // at the switch, one after another
  // By aggregator, the sequence that it holds, and the one that it notes as passed; or kNone.
  std::vector<int> held;
  std::vector<int> passed;
};

TEST(WorldsWithPlaces, HaveFragmentsThatMeetAsTheySay) {
  const std::vector<Row> rows = {
      {"both fragments have the last aggregator as their home: the second one takes the first",
       "two-places",
       {{0, 0, 0}, {0, 0, 1}},
       {1, 0},
       {kNone, kNone}},
      {"whichever comes first has the home",
       "two-places",
       {{0, 0, 1}, {0, 1, 0}},
       {0, 1},
       {kNone, kNone}},
      {"one fragment's note lies at the home that the other one holds; the other place is free",
       "quota",
       {{0, 0, 0}, {0, 0, 1}},
       {kNone, 0},
       {kNone, 1}},
      {"a fragment passes although an aggregator is free, which is none of its places",
       "overlapping-places",
       {{0, 0, 0}, {0, 0, 1}, {0, 0, 2}},
       {1, 0, kNone},
       {2, kNone, kNone}},
      {"a fragment takes another one's home, and this one the next place",
       "overlapping-places",
       {{0, 0, 1}, {0, 0, 2}, {0, 1, 0}},
       {1, 2, 0},
       {kNone, kNone, kNone}},
      {"the fragments of one job hold all places of the other's",
       "parts",
       {{0, 0, 0}, {0, 0, 1}, {1, 0, 0}},
       {1, 0},
       {kNone, 0}},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    SwitchNode node = switch_after(row.world, row.arrivals);
    const AggregatorTable& aggregators = inside(node).aggregators;
    std::vector<int> held;
    std::vector<int> passed;
    for (std::uint32_t slot = 0; slot < aggregators.size(); ++slot) {
      const atp_aggregator& a = aggregators[slot];
      held.push_back(a.state == ATP_EMPTY ? kNone : static_cast<int>(a.identity.sequence));
      passed.push_back(a.any_passed == 0 ? kNone : static_cast<int>(a.passed.sequence));
    }
    EXPECT_EQ(held, row.held);
    EXPECT_EQ(passed, row.passed);
  }
}

TEST(WorldsWithPlaces, HaveJobsThatGetNoMoreThanTheirParts) {
  SwitchNode node = switch_after("parts", {{0, 0, 0}, {0, 0, 1}, {1, 0, 0}});
  TreeTable& trees = inside(node).trees;
  const Tree* tree = trees.find({1, 1}, 0);
  ASSERT_NE(tree, nullptr);
  EXPECT_EQ(trees.shares()[tree->share()].quota, 1U);
}

}  // namespace
}  // namespace atp::explore
