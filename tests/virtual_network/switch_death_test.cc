#include "tests/virtual_network/scenario.h"

// The switch dies, stays dead, returns without its memory or only seems dead: the job continues
// with the same bits, and returns to the tree when it works again (docs/inside/protocol §5,
// *Detaching*).

namespace atp::sim {
namespace {

std::uint64_t completed(World& world) {
  return world.server().counters()[ServerCounter::kFragmentsCompleted];
}
std::uint64_t by_one_packet(World& world) {
  return world.server().counters()[ServerCounter::kFragmentsCompletedByOnePacket];
}

// The share of fragments that the switch alone sums during the next `time`.
double share_in_switch(World& world, Duration time) {
  const std::uint64_t all = completed(world);
  const std::uint64_t one = by_one_packet(world);
  world.run_for(time);
  EXPECT_GT(completed(world), all);
  return static_cast<double>(by_one_packet(world) - one) /
         static_cast<double>(completed(world) - all);
}

Plan long_plan(std::uint16_t world_size) {
  return steady_plan(world_size, 3000, 40, milliseconds(5));
}

class SwitchDeath : public testing::TestWithParam<double> {};  // probability of an ICMP error

TEST_P(SwitchDeath, RanksSurviveALastingDeathByDetaching) {
  Plan plan = steady_plan(3, 1000, 40, milliseconds(5));
  plan.report_unreachable = GetParam();
  World world(plan);
  world.run_for(milliseconds(200));
  world.kill(world.switch_host(0));
  expect_all_done(world);
  for (const Rank rank : {0, 1, 2}) {
    EXPECT_EQ(world.application(rank).detached(), 1);
    EXPECT_EQ(world.application(rank).attached(), 0);
  }
}

TEST_P(SwitchDeath, ForOneSecondEndsWithTheTreeInUseAgainWithinTwo) {
  Plan plan = long_plan(3);
  plan.report_unreachable = GetParam();
  World world(plan);
  world.run_for(milliseconds(500));
  world.kill(world.switch_host(0));
  world.run_for(seconds(1));
  world.restart_switch(0);
  world.run_for(seconds(2));
  EXPECT_GE(share_in_switch(world, milliseconds(500)), 0.95);
  expect_all_done(world);
}

INSTANTIATE_TEST_SUITE_P(VirtualNetwork, SwitchDeath, testing::Values(0.0, 1.0));

TEST(SwitchMemory, LostInARestartIsBackWithinTwoSeconds) {
  World world(long_plan(4));
  world.run_for(milliseconds(500));
  world.restart_switch(0);
  world.run_for(seconds(2));
  EXPECT_GE(share_in_switch(world, milliseconds(500)), 0.95);
  expect_all_done(world);
}

TEST(SwitchMemory, ASingleRankIsRelearnedOnRequest) {
  World world(long_plan(2));
  world.run_for(milliseconds(500));
  world.restart_switch(0);
  // Rank 0 is back at once; rank 1's JOINs are lost until it is told that it is unknown.
  const Instant begin = world.now();
  world.set_tap([&](const Packet& packet) -> Verdict {
    return {.drop = is(packet, PacketType::kJoin) && world.now() < begin + milliseconds(50) &&
                    packet.from == world.endpoint(world.worker_host(1)) &&
                    packet.to == world.endpoint(world.switch_host(0))};
  });
  world.run_for(seconds(2));
  EXPECT_GT(world.worker(1).counters()[WorkerCounter::kUnknownJobReceived], 0);
  EXPECT_GE(share_in_switch(world, milliseconds(500)), 0.95);
}

TEST(Detaching, IsNotInferredFromTheFloatPath) {
  Plan plan = steady_plan(3, 60, 40, milliseconds(5));
  for (std::size_t i = 0; i < 30; ++i) plan.jobs[0].operations[i].values = Values::kHuge;
  World world(plan);
  expect_all_done(world);
  EXPECT_GT(world.oracle().float_fragments(), 0);
  EXPECT_EQ(world.server().counters()[ServerCounter::kStatusDetached], 0);
  EXPECT_GT(by_one_packet(world), 300);
  for (const Rank rank : {0, 1, 2}) EXPECT_EQ(world.application(rank).detached(), 0);
}

// As if the switch had set the flag, as it does on packets that must not be merged.
std::vector<std::uint8_t> with_direct(std::vector<std::uint8_t> bytes) {
  bytes[ATP_AT_FLAGS] |= ATP_FLAG_DIRECT;
  return bytes;
}

TEST(Detaching, IsNotInferredFromPacketsThatASwitchMadeDirect) {
  World world(long_plan(3));
  world.run_for(milliseconds(500));
  const Endpoint rank = world.endpoint(world.worker_host(0));
  const Endpoint node = world.endpoint(world.switch_host(0));
  const Endpoint server = world.endpoint(world.server_host());
  int passed_on = 0;
  world.set_tap([&](const Packet& packet) -> Verdict {
    if (!is(packet, PacketType::kGradient) || packet.from != rank || passed_on == 20) return {};
    ++passed_on;
    world.inject(node, server, with_direct(packet.bytes), microseconds(20));
    return {.drop = true};
  });
  world.run_for(seconds(2));
  EXPECT_EQ(passed_on, 20);
  EXPECT_EQ(world.server().counters()[ServerCounter::kStatusDetached], 0);
  EXPECT_GE(share_in_switch(world, milliseconds(500)), 0.95);
  expect_all_done(world);
  for (const Rank each : {0, 1, 2}) EXPECT_EQ(world.application(each).detached(), 0);
}

// The straight JOIN that becomes of this one when its rank detaches for the first time.
std::vector<std::uint8_t> says_detached(const std::vector<std::uint8_t>& join) {
  const ParsedPacket parsed = parse_packet(join);
  Join body = Join::read(parsed.view().body).value();
  body.detached = true;
  body.detachments = 1;
  std::vector<std::uint8_t> bytes = join;
  body.write(&bytes[atp_body_offset(parsed.view().header.bitmap_words)]);
  return bytes;
}

// Two racks of two ranks, with a switch each, under a third. Rank 0 detaches while its contribution
// waits in its rack's switch for rank 1's: their sum comes to the upper switch with the bit of a
// detached rank, and must not be dropped there.
TEST(Detaching, ARankWithAContributionInASumInFlightLosesNothing) {
  Plan plan = steady_plan(4, 400, 40, milliseconds(1));
  plan.switches = 3;
  plan.jobs[0].parent = {0, 0, 1, 1};
  plan.jobs[0].uplink = {2, 2, -1};
  World world(plan);
  const Endpoint rank_0 = world.endpoint(world.worker_host(0));
  const Endpoint rank_1 = world.endpoint(world.worker_host(1));
  std::vector<std::uint8_t> straight_join;
  world.set_tap([&](const Packet& packet) -> Verdict {
    const bool is_straight = packet.to == world.endpoint(world.server_host());
    if (packet.from == rank_0 && is_straight && is(packet, PacketType::kJoin)) {
      straight_join = packet.bytes;
    }
    return {};
  });
  world.run_for(milliseconds(200));
  world.set_tap([&](const Packet& packet) -> Verdict {
    return {.drop = is(packet, PacketType::kGradient) && packet.from == rank_1};
  });
  world.run_for(milliseconds(5));
  world.inject(rank_0, world.endpoint(world.server_host()), says_detached(straight_join));
  world.run_for(milliseconds(5));  // all switches have been told
  // Rank 0 itself has not, and would repeat its contribution past the sum.
  world.set_tap([&](const Packet& packet) -> Verdict {
    return {.drop = is(packet, PacketType::kGradient) && packet.from == rank_0};
  });
  world.run_for(milliseconds(30));
  EXPECT_GT(world.switch_node(2).counters()[SwitchCounter::kForwardedDetached], 0);
  // Rank 1's repeats went up the tree with rank 0's contribution; none had to go around it.
  EXPECT_EQ(world.worker(1).counters()[WorkerCounter::kRepeatsDirect], 0);
  world.set_tap(nullptr);
  expect_all_done(world);
}

TEST(Detaching, IsNotCausedByASlowPeer) {
  World world(long_plan(3));
  world.run_for(milliseconds(500));
  world.pause(world.worker_host(1), seconds(4));
  world.run_for(seconds(5));
  for (const Rank rank : {0, 1, 2}) EXPECT_EQ(world.application(rank).detached(), 0);
  EXPECT_GE(share_in_switch(world, milliseconds(500)), 0.95);
  EXPECT_THAT(world.violations(), testing::IsEmpty());
}

// Whether it is a packet between rank 0 and the switch.
bool on_path_of_rank_0(const World& world, const Packet& packet) {
  const Endpoint& rank = world.endpoint(world.worker_host(0));
  const Endpoint& node = world.endpoint(world.switch_host(0));
  return (packet.from == rank && packet.to == node) || (packet.from == node && packet.to == rank);
}

// Drops all packets between rank 0 and the switch until the rank has detached.
void detach_rank_0(World& world) {
  world.set_tap([&world](const Packet& packet) -> Verdict {
    return {.drop = on_path_of_rank_0(world, packet)};
  });
  world.run(seconds(5), [&] { return world.application(0).detached() > 0; });
  world.set_tap(nullptr);
}

TEST(Detaching, ARankWithABadPathReturnsWhenThePathWorksAgain) {
  World world(long_plan(3));
  world.run_for(milliseconds(500));
  detach_rank_0(world);
  EXPECT_EQ(world.application(0).detached(), 1);
  EXPECT_TRUE(world.run(seconds(2), [&] { return world.application(0).attached() == 1; }));
  world.run_for(seconds(1));
  EXPECT_GE(share_in_switch(world, milliseconds(500)), 0.95);
  EXPECT_EQ(world.application(1).detached(), 0);
  expect_all_done(world);
}

TEST(Detaching, ARankWhoseJoinsNeverArriveDetachesWhenItsLeaseEnds) {
  World world(long_plan(3));
  world.run_for(milliseconds(500));
  // Its packets to the switch are lost, but all downward packets arrive.
  const Endpoint rank = world.endpoint(world.worker_host(0));
  const Endpoint node = world.endpoint(world.switch_host(0));
  world.set_tap([=](const Packet& packet) -> Verdict {
    return {.drop = packet.from == rank && packet.to == node};
  });
  EXPECT_TRUE(world.run(seconds(7), [&] { return world.application(0).detached() > 0; }));
  world.set_tap(nullptr);
  EXPECT_TRUE(world.run(seconds(2), [&] { return world.application(0).attached() == 1; }));
  expect_all_done(world);
}

TEST(Detaching, AnnouncedLateDoesNotRemoveARankThatIsBack) {
  World world(long_plan(3));
  world.run_for(milliseconds(500));
  world.set_tap([&](const Packet& packet) -> Verdict {
    if (on_path_of_rank_0(world, packet) && world.application(0).detached() == 0) {
      return {.drop = true};
    }
    const auto status = status_of(packet);
    const bool late = status && status->code == StatusCode::kDetached;
    return {.delay = late ? milliseconds(700) : Duration{0}};
  });
  EXPECT_TRUE(world.run(seconds(5), [&] { return world.application(0).attached() == 1; }));
  world.run_for(seconds(2));
  EXPECT_GE(share_in_switch(world, milliseconds(500)), 0.95);
  EXPECT_THAT(world.violations(), testing::IsEmpty());
}

TEST(Detaching, ARankThatStaysDetachedLeavesTheOthersInTheTree) {
  World world(long_plan(4));
  world.run_for(milliseconds(500));
  world.set_tap(
      [&](const Packet& packet) -> Verdict { return {.drop = on_path_of_rank_0(world, packet)}; });
  world.run(seconds(5), [&] { return world.application(0).detached() > 0; });
  world.run_for(seconds(1));
  const Counters<SwitchCounter> before = world.switch_node().counters();
  const std::uint64_t fragments = completed(world);
  world.run_for(milliseconds(500));
  const Counters<SwitchCounter>& after = world.switch_node().counters();
  const auto sums = static_cast<double>(after[SwitchCounter::kCompleteSumsSent] -
                                        before[SwitchCounter::kCompleteSumsSent]);
  EXPECT_NEAR(sums, static_cast<double>(completed(world) - fragments), 20);
  EXPECT_EQ(after[SwitchCounter::kPartialSumsSent], before[SwitchCounter::kPartialSumsSent]);
  world.set_tap(nullptr);
  expect_all_done(world);
}

TEST(Detaching, AtTheStartEndsWellEvenIfTheSwitchReturnsWithTooSmallAK) {
  Plan plan = steady_plan(2, 200, 40, milliseconds(5));
  plan.switch_config.max_value_count = 2;  // the job agrees on 4 while it is away
  plan.report_unreachable = 1;
  World world(plan);
  world.kill(world.switch_host(0));
  world.at(Instant{milliseconds(300)}, [&] { world.restart_switch(0); });
  expect_all_done(world);
  EXPECT_EQ(world.worker(0).value_count(), 4);
  EXPECT_EQ(world.application(0).detached(), 1);
  EXPECT_EQ(world.application(0).attached(), 0);
}

TEST(Detaching, AJoiningRankDetachesIfItsSwitchDiesAfterOneAnswer) {
  World world(steady_plan(2, 200, 40, milliseconds(5)));
  const Endpoint rank = world.endpoint(world.worker_host(0));
  world.set_tap([&](const Packet& packet) -> Verdict {
    const bool from_switch = packet.from == world.endpoint(world.switch_host(0));
    return {.drop = is(packet, PacketType::kJoinAck) && from_switch && packet.to == rank};
  });
  world.run_for(milliseconds(1500));
  EXPECT_GT(world.worker(0).counters()[WorkerCounter::kWaitingForReceived], 0);
  EXPECT_FALSE(world.application(0).joined());
  world.kill(world.switch_host(0));
  expect_all_done(world);
}

}  // namespace
}  // namespace atp::sim
