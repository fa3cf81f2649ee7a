// Trees of aggregating switches on several levels, computed by hand. link_load_test.cc derives the
// loads of single trees from paths.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <vector>

#include "atp/planner/link_load.h"
#include "atp/planner/testing_interconnects.h"

namespace atp::planner {
namespace {

using testing::switched;

Aggregation falling_back(double share) { return {.fallback_share = share}; }

// One group over all of `counts`, with an aggregation for each level that sums.
struct Machine {
  Interconnect interconnect;
  MeshLayout layout;

  void add(std::uint32_t count, std::optional<Aggregation> aggregation) {
    interconnect.levels.push_back(switched("level", count, 1, aggregation));
    interconnect.levels.back().latency_s = 1;
    layout.push_back({count, 1});
  }
  AllReduceCost cost() const {
    return aggregating_all_reduce(interconnect, geometry_of(layout, Dimension::k1), 4);
  }
};

double load_of(const AllReduceCost& cost, std::size_t level) {
  const auto link = std::find_if(cost.links.begin(), cost.links.end(),
                                 [level](const LinkLoad& each) { return each.level == level; });
  return link == cost.links.end() ? -1 : link->load;
}

double server_load(const AllReduceCost& cost, std::size_t level) {
  for (const LinkLoad& link : cost.links) {
    if (link.level == level && link.role == LinkRole::kServer) return link.load;
  }
  return -1;
}

// Two trees separated by a level that cannot sum, so the lower is not part of the upper.
Machine two_trees(const Aggregation& upper, const Aggregation& lower) {
  Machine machine;
  machine.add(2, upper);
  machine.add(2, std::nullopt);
  machine.add(2, lower);
  return machine;
}

TEST(SeparateTrees, AreTwoRoundTripsEach) {
  // Between them one step up and one down.
  EXPECT_DOUBLE_EQ(two_trees({}, {}).cost().latency_s, 4 + 2 + 4);
}

TEST(SeparateTrees, HaveSeparateServers) {
  const AllReduceCost cost = two_trees({.server_hosts = 1}, {.server_hosts = 1}).cost();
  EXPECT_DOUBLE_EQ(server_load(cost, 0), 1);
  // The upper levels exchange 1 between siblings and half of the upper tree's 1, through the
  // servers of the lower tree.
  EXPECT_DOUBLE_EQ(load_of(cost, 1), 1.5);
  EXPECT_DOUBLE_EQ(server_load(cost, 2), 1 + 1.5);
}

TEST(SeparateTrees, AreServedByTheirOwnWorkers) {
  const Aggregation on_workers{.placement = ServerPlacement::kColocated};
  const AllReduceCost cost = two_trees(on_workers, on_workers).cost();
  EXPECT_DOUBLE_EQ(load_of(cost, 0), 1.5);
  EXPECT_DOUBLE_EQ(load_of(cost, 1), 1 + 1.5 / 2);
  EXPECT_DOUBLE_EQ(load_of(cost, 2), 1.5 + 1.75 / 2) << "for two children, not four";
}

TEST(OneTree, FallsBackByTheChildrenUpToALevel) {
  Machine machine;
  machine.add(2, falling_back(0.25));
  machine.add(4, falling_back(0.5));
  const AllReduceCost cost = machine.cost();
  EXPECT_DOUBLE_EQ(load_of(cost, 0), 0.75 + 0.25 * 2 / 2);
  EXPECT_DOUBLE_EQ(load_of(cost, 1), 0.5 + 0.5 * 2 * 7 / 8);
}

TEST(OneTree, ReportsTheLargestShareThatFallsBack) {
  for (const auto& [upper, lower] : {std::pair{0.5, 0.25}, std::pair{0.25, 0.5}}) {
    Machine machine;
    machine.add(2, falling_back(upper));
    machine.add(4, falling_back(lower));
    EXPECT_DOUBLE_EQ(machine.cost().fallback_share, 0.5);
  }
}

// Eight server hosts in two racks of eight machines: four per rack, at most one per machine.
TEST(OneTree, SpreadsServersOverTheChildrenOfEveryLevel) {
  const Aggregation served{.placement = ServerPlacement::kColocated, .server_hosts = 8};
  Machine machine;
  machine.add(2, served);
  machine.add(8, served);
  const AllReduceCost cost = machine.cost();
  EXPECT_DOUBLE_EQ(load_of(cost, 0), 1 + 4.0 / 8);
  EXPECT_DOUBLE_EQ(load_of(cost, 1), 1 + 1.0 / 8);
}

double switch_load(const AllReduceCost& cost, std::size_t level) {
  for (const LinkLoad& link : cost.links) {
    if (link.level == level && link.role == LinkRole::kSwitchHost) return link.load;
  }
  return -1;
}

// Two racks of four machines; every switch is a program on a host with a link of rate 2.
TEST(SwitchHosts, ReceiveATensorFromEachChildAndTheSumFromAbove) {
  struct Row {
    const char* what;
    std::uint32_t across, inside;  // of dimension 1, of 2 racks and 4 machines
    double fallback_share;
    double above, below;  // loads of the two levels' switches
  };
  for (const Row& row :
       {Row{"one group of all", 2, 4, 0, 3, 5}, Row{"a group in each rack", 1, 4, 0, -1, 5},
        Row{"two groups in each rack", 1, 2, 0, -1, 2 * 3},
        Row{"four groups across, which the lower switches only forward", 2, 1, 0, 4 * 3, 4 * 2},
        Row{"all falls back: every child's tensor goes up as it is", 2, 4, 1, 2 + 2, 4 + 4}}) {
    Machine machine;
    machine.add(2, Aggregation{.switch_bandwidth = {2}, .fallback_share = row.fallback_share});
    machine.add(4, Aggregation{.switch_bandwidth = {2}, .fallback_share = row.fallback_share});
    machine.layout = {{row.across, 2 / row.across}, {row.inside, 4 / row.inside}};
    const AllReduceCost cost = machine.cost();
    EXPECT_DOUBLE_EQ(switch_load(cost, 0), row.above) << row.what;
    EXPECT_DOUBLE_EQ(switch_load(cost, 1), row.below) << row.what;
  }
}

TEST(SwitchHosts, LimitAnAllReduceIfTheirLinksAreLikeTheRanks) {
  Machine machine;
  machine.add(8, Aggregation{.switch_bandwidth = {1e9}});  // as the ranks' links
  const LinkLoad fullest = machine.cost().fullest();
  EXPECT_EQ(fullest.role, LinkRole::kSwitchHost);
  EXPECT_DOUBLE_EQ(fullest.seconds_per_byte, 9 / 1e9);
  machine.interconnect.levels[0].aggregation->switch_bandwidth = {16e9};
  EXPECT_EQ(machine.cost().fullest().role, LinkRole::kUplink);
}

// Passes the packets of one operation over the link of a switch's host, one per unit of time in
// each direction, first come, first served. All ranks send everything at once, over links of the
// same rate. Returns when the last copy has left.
double time_of_burst(std::uint32_t ranks, std::uint32_t groups, std::uint32_t fragments) {
  std::deque<std::int64_t> arriving;  // the number of a gradient's fragment; -1: a sum
  std::vector<std::uint32_t> found(std::size_t{groups} * fragments);
  std::uint32_t sent = 0, sums = 0;
  double leaving = 0, time = 0;
  while (sums < found.size()) {
    if (sent < fragments) {
      for (std::uint32_t group = 0; group < groups; ++group) {
        arriving.insert(arriving.end(), ranks, std::int64_t{group} * fragments + sent);
      }
      ++sent;
    }
    const std::int64_t packet = arriving.front();
    arriving.pop_front();
    if (packet < 0) {
      leaving += ranks;
      ++sums;
    } else if (++found[static_cast<std::size_t>(packet)] == ranks) {
      leaving += 1;
      arriving.push_back(-1);
    }
    leaving = std::max(0.0, leaving - 1);
    time += 1;
  }
  return time + leaving;
}

TEST(SwitchHosts, TakeLongerIfAllGradientsOfAWindowPrecedeTheSums) {
  struct Row {
    std::uint32_t ranks, groups;
  };
  for (const Row& row : {Row{4, 1}, Row{8, 1}, Row{2, 2}, Row{2, 4}, Row{4, 2}}) {
    const double fragments = 2000;
    Machine machine;
    machine.add(row.ranks * row.groups, Aggregation{.switch_bandwidth = {1e9}, .burst = 2000});
    machine.layout = {{row.ranks, row.groups}};
    const LinkLoad link = machine.cost().fullest();
    ASSERT_EQ(link.role, LinkRole::kSwitchHost);
    const double found = (fragments * link.seconds_per_byte + link.burst.of(fragments)) * 1e9;
    const double expected = time_of_burst(row.ranks, row.groups, 2000);
    EXPECT_NEAR(found / expected, 1, 0.02) << row.ranks << " ranks, " << row.groups << " groups";
    EXPECT_GT(found, 1.2 * fragments * link.seconds_per_byte * 1e9);
  }
}

TEST(SwitchHosts, TakeNoLongerBeyondAWindowOrIfTheRanksLinksAreSlower) {
  Machine machine;
  machine.add(4, Aggregation{.payload_bytes = 1000,
                             .header_bytes = 100,
                             .wire_bytes_per_value = 2,
                             .switch_bandwidth = {1e9},
                             .burst = 10});
  const Burst burst = machine.cost().fullest().burst;
  EXPECT_DOUBLE_EQ(burst.bytes, 10 * 1000 * 4 / 2.0);  // float32 as int16
  EXPECT_DOUBLE_EQ(burst.of(1e9), burst.of(burst.bytes));
  EXPECT_DOUBLE_EQ(burst.of(1e9, 3), 3 * burst.of(burst.bytes));
  EXPECT_DOUBLE_EQ(burst.seconds_per_byte, 0.5 * 1.1 * (1 - 1 / 4.0) * (4 - 1) / 1e9);
  machine.interconnect.levels[0].aggregation->switch_bandwidth = {4e9};
  EXPECT_EQ(machine.cost().fullest().burst.of(1e9), 0);
}

TEST(Rings, GetTheShareOfStreamsOfALinkWhosePacketsAreCounted) {
  Machine machine;
  machine.add(4, Aggregation{.stream_share = 0.8});
  const AllReduceCost ring =
      ring_all_reduce(machine.interconnect, geometry_of(machine.layout, Dimension::k1));
  EXPECT_DOUBLE_EQ(ring.fullest().seconds_per_byte, 2 * 3 / 4.0 / (0.8 * 1e9));
  EXPECT_DOUBLE_EQ(machine.cost().fullest().seconds_per_byte, 1 / 1e9);
}

}  // namespace
}  // namespace atp::planner
