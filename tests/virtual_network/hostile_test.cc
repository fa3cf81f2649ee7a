#include "atp/sim/hostile.h"

#include "atp/core/testing_drops.h"
#include "tests/virtual_network/scenario.h"

// An attacker floods switch and server during a run. The job must not be affected: the same sums,
// no failure, no rank detached; and each packet of the attacker is dropped and counted by reason.

namespace atp::sim {
namespace {

template <class Enum>
int reasons(const Counters<Enum>& counters) {
  int different = 0;
  counters.for_each([&](std::string_view name, std::uint64_t value) {
    different += is_drop(name) && value > 0 ? 1 : 0;
  });
  return different;
}

enum class Enemy { kNoise, kForeign, kAtAChild, kControlOfMembers };

struct HostileCase {
  const char* name;
  Enemy enemy;
  int least_reasons;  // different drop counters at the switch, and at the server
};

class HostilePackets : public testing::TestWithParam<HostileCase> {
 protected:
  static constexpr std::uint64_t kPackets = 40000;

  // One packet of the attacker every 5 µs, in turn to the switch, to the server and to a worker.
  void attack(World& world) {
    const Endpoint& worker = world.endpoint(world.worker_host(1));
    const Endpoint& node = world.endpoint(world.switch_host(0));
    const Endpoint& server = world.endpoint(world.server_host());
    if (hostile_.has_captured()) {
      switch (number_ % 3) {
        case 0: send(world, worker, node, RankSet::of(1)); break;
        case 1: send(world, node, server, RankSet::first(3)); break;
        default: send_to_worker(world, node, worker);
      }
    }
    if (++number_ < kPackets) {
      world.at(world.now() + microseconds(5), [this, &world] { attack(world); });
    }
  }

  void send(World& world, const Endpoint& child, const Endpoint& to, const RankSet& own) {
    switch (GetParam().enemy) {
      case Enemy::kNoise: return world.inject(kEnemy, to, hostile_.noise());
      case Enemy::kForeign: return world.inject(kEnemy, to, hostile_.foreign());
      case Enemy::kAtAChild: return world.inject(child, to, hostile_.of_a_child(child, own));
      case Enemy::kControlOfMembers:
        return world.inject(child, to, hostile_.control_of_a_child(child, to));
    }
  }

  // A worker must accept a PARAMETER from its parent's address, so from there the attacker sends
  // only control messages.
  void send_to_worker(World& world, const Endpoint& parent, const Endpoint& worker) {
    if (GetParam().enemy == Enemy::kControlOfMembers) {
      world.inject(parent, worker, hostile_.control_of_a_parent(RankSet::of(1)));
    } else {
      world.inject(kEnemy, worker, hostile_.foreign());
    }
  }

  static constexpr Endpoint kEnemy = Endpoint::ipv4(10, 9, 9, 9, 4000);

  Hostile hostile_{4711};
  std::uint64_t number_ = 0;
};

TEST_P(HostilePackets, DisturbNothing) {
  Plan plan = steady_plan(3, 300, 60, microseconds(500));
  World world(plan);
  world.set_tap([&](const Packet& packet) -> Verdict {
    hostile_.capture(packet);
    return {};
  });
  world.at(Instant{milliseconds(10)}, [&] { attack(world); });
  EXPECT_TRUE(world.run_to_completion()) << world.unfinished();
  EXPECT_GT(number_, 10000);
  for (const Rank rank : {0, 1, 2}) {
    EXPECT_EQ(world.application(rank).detached(), 0);
    EXPECT_FALSE(world.application(rank).failed());
  }
  EXPECT_THAT(world.violations(), testing::IsEmpty());
  EXPECT_GT(drops_in(world.switch_node().counters()), number_ / 5);
  EXPECT_GT(drops_in(world.server().counters()), number_ / 5);
  EXPECT_GT(drops_in(world.worker(1).counters()), number_ / 5);
  EXPECT_GE(reasons(world.switch_node().counters()), GetParam().least_reasons);
  EXPECT_GE(reasons(world.server().counters()), GetParam().least_reasons);
  world.set_tap(nullptr);
  number_ = kPackets;
  world.check_release();
  EXPECT_THAT(world.violations(), testing::IsEmpty());
}

const HostileCase kEnemies[] = {
    {"of_noise", Enemy::kNoise, 6},
    {"from_a_foreign_address", Enemy::kForeign, 10},
    {"from_a_childs_own_address", Enemy::kAtAChild, 4},
    {"for_joining_and_leaving_from_members_own_addresses", Enemy::kControlOfMembers, 4},
};
INSTANTIATE_TEST_SUITE_P(VirtualNetwork, HostilePackets, testing::ValuesIn(kEnemies),
                         [](const auto& instance) { return instance.param.name; });

}  // namespace
}  // namespace atp::sim
