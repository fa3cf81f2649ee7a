#include "explore/stored_node.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "atp/base/random.h"
#include "explore/testing_worlds.h"
#include "explore/world.h"

// States are nodes that were stored, cleared of statistics and merged with equal ones. The tests
// run untouched nodes next to them, and both must send the same packets.

namespace atp::explore {
namespace {

std::vector<Node> nodes_of(const World& world, const State& state) {
  std::vector<Node> nodes;
  nodes.reserve(world.cluster().host_count());
  for (HostId host = 0; host < world.cluster().host_count(); ++host) {
    nodes.push_back(world.cluster().nodes(host).get(state.nodes[host]));
  }
  return nodes;
}

class Walk {
 public:
  Walk(World& world, std::uint64_t seed)
      : world_(world), random_(seed), state_(world.first()), untouched_(nodes_of(world, state_)) {}

  // False when there is nothing more to do.
  bool step() {
    world_.moves(state_, moves_);
    if (moves_.empty()) return false;
    const Move move = moves_[random_.below(moves_.size())];
    const State before = state_;
    EXPECT_THAT(world_.make(move, state_), testing::IsEmpty());
    EXPECT_EQ(play(move), world_.sent(move, before)) << world_.story(move, before);
    return !testing::Test::HasFailure();
  }

 private:
  // Makes the same move with the untouched nodes; returns what they send.
  std::vector<Packet> play(const Move& move) {
    const Cluster& cluster = world_.cluster();
    const auto host = static_cast<HostId>(move.subject);
    const Instant now = cluster.time(state_.now);
    switch (move.kind) {
      case MoveKind::kLose:
      case MoveKind::kDouble: return {};
      case MoveKind::kRestart:
        untouched_[host] = cluster.nodes(host).get(cluster.restarted(host));
        return {};
      case MoveKind::kDeliver: {
        const Packet& packet = cluster.packets()[move.subject];
        return turn(packet.to, now,
                    {Cause::kPacket, cluster.endpoint(packet.from), packet.bytes,
                     cluster.endpoint(packet.to)});
      }
      case MoveKind::kFire: return turn(host, now, {});
      case MoveKind::kUnreachable:
        return turn(host, now, {Cause::kUnreachable, cluster.parent(host), {}});
    }
    return {};
  }

  std::vector<Packet> turn(HostId host, Instant now, const Input& input) {
    Outbox out;
    run(untouched_[host], now, input, out);
    return world_.cluster().packets_in(out, host);
  }

  World& world_;
  Random random_;
  State state_;
  std::vector<Node> untouched_;
  std::vector<Move> moves_;
};

class States : public testing::TestWithParam<Plan> {};

TEST_P(States, SendTheSamePacketsAsNodesThatWereNeverStored) {
  World world(GetParam());
  std::size_t steps = 0;
  for (std::uint64_t seed = 0; seed < 300 && !HasFailure(); ++seed) {
    Walk walk(world, seed);
    while (walk.step()) ++steps;
  }
  EXPECT_GT(steps, 3000U);
}

INSTANTIATE_TEST_SUITE_P(Explore, States, testing::ValuesIn(known_worlds()), test_name<Plan>);

TEST(NodeStore, MergesTwoSwitchesThatDifferOnlyInCounters) {
  SwitchConfig config;
  config.aggregators = 1;
  config.max_value_count = 1;
  SwitchNode node{config};
  NodeStore store;
  const NodeStore::Id fresh = store.put(node);
  Outbox out;
  node.handle_unreachable(Instant{}, Endpoint{}, out);
  EXPECT_GT(node.counters()[SwitchCounter::kUnreachable], 0U);
  EXPECT_EQ(store.put(node), fresh);
  inside(node).congested = true;
  EXPECT_NE(store.put(node), fresh);
}

}  // namespace
}  // namespace atp::explore
