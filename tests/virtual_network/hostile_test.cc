#include "atp/sim/hostile.h"

#include "tests/virtual_network/scenario.h"

// An enemy floods switch and server during a run. The job must not notice: same sums, no failure,
// nobody detached; and each packet of the enemy is dropped under a name.

namespace atp::sim {
namespace {

template <class Enum>
std::uint64_t drops(const Counters<Enum>& counters) {
  std::uint64_t sum = 0;
  counters.for_each([&](std::string_view name, std::uint64_t value) {
    if (name.starts_with("drop_")) sum += value;
  });
  return sum;
}

template <class Enum>
int reasons(const Counters<Enum>& counters) {
  int different = 0;
  counters.for_each([&](std::string_view name, std::uint64_t value) {
    different += name.starts_with("drop_") && value > 0 ? 1 : 0;
  });
  return different;
}

enum class Enemy { kNoise, kForeign, kAtAChild };

struct HostileCase {
  const char* name;
  Enemy enemy;
  int least_reasons;  // different drop counters at the switch, and at the server
};

class HostilePackets : public testing::TestWithParam<HostileCase> {
 protected:
  // One packet of the enemy every 5 µs, in turn to the switch and to the server.
  void attack(World& world) {
    const bool to_switch = number_++ % 2 == 0;
    const Endpoint& target = world.endpoint(to_switch ? world.switch_host(0) : world.server_host());
    const bool child = GetParam().enemy == Enemy::kAtAChild;
    const Endpoint from = !child      ? Endpoint::ipv4(10, 9, 9, 9, 4000)
                          : to_switch ? world.endpoint(world.worker_host(1))
                                      : world.endpoint(world.switch_host(0));
    const RankSet own = to_switch ? RankSet::of(1) : RankSet::first(3);
    if (hostile_.has_captured()) world.inject(from, target, next(child, from, own));
    if (number_ < 40000) {
      world.at(world.now() + microseconds(5), [this, &world] { attack(world); });
    }
  }

  Hostile::Bytes next(bool child, const Endpoint& from, const RankSet& own) {
    if (child) return hostile_.of_a_child(from, own);
    return GetParam().enemy == Enemy::kNoise ? hostile_.noise() : hostile_.foreign();
  }

  Hostile hostile_{4711};
  std::uint64_t number_ = 0;
};

TEST_P(HostilePackets, DisturbNothing) {
  Plan plan = steady_plan(3, 300, 60, microseconds(500));
  World world(plan);
  world.set_tap([&](const Packet& packet) -> Verdict {
    if (world.now() > Instant{milliseconds(5)}) hostile_.capture(packet);
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
  EXPECT_GT(drops(world.switch_node().counters()), number_ / 4);
  EXPECT_GT(drops(world.server().counters()), number_ / 4);
  EXPECT_GE(reasons(world.switch_node().counters()), GetParam().least_reasons);
  EXPECT_GE(reasons(world.server().counters()), GetParam().least_reasons);
  world.set_tap(nullptr);
  number_ = 40000;
  world.check_release();
  EXPECT_THAT(world.violations(), testing::IsEmpty());
}

const HostileCase kEnemies[] = {
    {"of_noise", Enemy::kNoise, 6},
    {"from_a_foreign_address", Enemy::kForeign, 6},
    {"from_a_childs_own_address", Enemy::kAtAChild, 4},
};
INSTANTIATE_TEST_SUITE_P(VirtualNetwork, HostilePackets, testing::ValuesIn(kEnemies),
                         [](const auto& instance) { return instance.param.name; });

}  // namespace
}  // namespace atp::sim
