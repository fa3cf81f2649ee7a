// Compares the formulas for link loads with messages routed one by one on random interconnects.

#include "atp/planner/link_load.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <sstream>

#include "atp/base/random.h"
#include "atp/planner/testing_paths.h"

namespace atp::planner {
namespace {

using testing::Coordinates;
using testing::Digits;
using testing::Direction;
using testing::Groups;
using testing::Paths;

constexpr int kTopologies = 3000;
constexpr std::uint64_t kMaxTestDevices = 48;

struct Scenario {
  Interconnect interconnect;
  MeshLayout layout;
  Dimension dimension = Dimension::k1;

  std::string text() const {
    std::ostringstream out;
    for (std::size_t level = 0; level < layout.size(); ++level) {
      out << to_string(interconnect.levels[level].kind) << " " << layout[level].d1 << "x"
          << layout[level].d2 << "; ";
    }
    out << "dimension " << (dimension == Dimension::k1 ? 1 : 2);
    return out.str();
  }
};

Level random_level(Random& random, bool torus_only) {
  Level level{.name = "level", .bandwidth = {1 + random.uniform()}};
  level.kind = torus_only ? LevelKind::kTorus : static_cast<LevelKind>(random.below(5));
  level.count =
      level.kind == LevelKind::kPairs ? 2 : static_cast<std::uint32_t>(1 + random.below(8));
  return level;
}

LevelSplit random_split(Random& random, std::uint32_t count) {
  std::uint32_t d1 = 0;
  do {
    d1 = static_cast<std::uint32_t>(1 + random.below(count));
  } while (count % d1 != 0);
  return {d1, count / d1};
}

Scenario random_scenario(Random& random) {
  while (true) {
    Scenario scenario;
    bool torus = false;
    const std::size_t levels = 1 + random.below(4);
    for (std::size_t level = 0; level < levels; ++level) {
      scenario.interconnect.levels.push_back(random_level(random, torus));
      torus |= scenario.interconnect.levels.back().kind == LevelKind::kTorus;
      scenario.layout.push_back(random_split(random, scenario.interconnect.levels.back().count));
    }
    scenario.dimension = random.chance(0.5) ? Dimension::k1 : Dimension::k2;
    if (!validate(scenario.interconnect).ok()) continue;
    if (device_count(scenario.interconnect) > kMaxTestDevices) continue;
    const Groups groups(scenario.layout, scenario.dimension);
    const std::size_t members = groups.all_members().size();
    if (members == 1) continue;
    std::uint64_t orders = 1;
    for (std::size_t level = 0; level < levels; ++level) {
      if (scenario.interconnect.levels[level].kind != LevelKind::kFull) continue;
      for (std::uint64_t n = 2; n <= groups.own_sizes()[level]; ++n) orders *= n;
    }
    if (orders > 24) continue;
    return scenario;
  }
}

// For every level the orders in which siblings are visited: all on full levels, else their own.
using SiblingOrders = std::vector<Digits>;

std::vector<SiblingOrders> sibling_orders(const Scenario& scenario, const Groups& groups) {
  std::vector<SiblingOrders> result{{}};
  for (std::size_t level = 0; level < scenario.layout.size(); ++level) {
    Digits order(groups.own_sizes()[level]);
    std::iota(order.begin(), order.end(), 0u);
    std::vector<SiblingOrders> longer;
    do {
      for (SiblingOrders orders : result) {
        orders.push_back(order);
        longer.push_back(std::move(orders));
      }
    } while (scenario.interconnect.levels[level].kind == LevelKind::kFull &&
             std::next_permutation(order.begin(), order.end()));
    result = std::move(longer);
  }
  return result;
}

// Sends a ring of the given volume per hop through the devices, half in each direction.
void send_ring(Paths& paths, const std::vector<Digits>& devices, double volume) {
  for (std::size_t place = 0; place < devices.size(); ++place) {
    const Digits& here = devices[place];
    const Digits& next = devices[(place + 1) % devices.size()];
    const Digits& previous = devices[(place + devices.size() - 1) % devices.size()];
    paths.send(here, next, volume / 2, true);
    paths.send(here, previous, volume / 2, false);
  }
}

Paths flat_ring_paths(const Scenario& scenario) {
  const Groups groups(scenario.layout, scenario.dimension);
  const auto orders = sibling_orders(scenario, groups);
  const auto members = groups.all_members();
  const double volume = 2.0 * (members.size() - 1) / members.size();
  Paths paths(scenario.interconnect);
  for (const SiblingOrders& order : orders) {
    for (const Digits& other : groups.all_groups()) {
      std::vector<Digits> devices;
      for (Digits own : members) {
        for (std::size_t level = 0; level < own.size(); ++level)
          own[level] = order[level][own[level]];
        devices.push_back(groups.device({own, other}));
      }
      send_ring(paths, devices, volume / orders.size());
    }
  }
  return paths;
}

// Sends rings among the siblings of one level for every choice of the other digits.
void send_level_rings(const Scenario& scenario, const Groups& groups, std::size_t level,
                      double tensor, Paths& paths) {
  const std::uint32_t siblings = groups.own_sizes()[level];
  const auto orders = sibling_orders(scenario, groups);
  const double volume = 2.0 * (siblings - 1) / siblings * tensor;
  for (const SiblingOrders& order : orders) {
    for (const Digits& other : groups.all_groups()) {
      for (Digits own : groups.all_members()) {
        if (own[level] != 0) continue;
        std::vector<Digits> devices;
        for (const std::uint32_t digit : order[level]) {
          own[level] = digit;
          devices.push_back(groups.device({own, other}));
        }
        send_ring(paths, devices, volume / orders.size());
      }
    }
  }
}

// The share that each member holds after all levels below `level` have scattered.
double share_at(const Groups& groups, std::size_t level) {
  double share = 1;
  for (std::size_t below = level + 1; below < groups.own_sizes().size(); ++below) {
    share /= groups.own_sizes()[below];
  }
  return share;
}

Paths hierarchical_paths(const Scenario& scenario) {
  const Groups groups(scenario.layout, scenario.dimension);
  Paths paths(scenario.interconnect);
  for (std::size_t level = scenario.layout.size(); level-- > 0;) {
    if (groups.own_sizes()[level] == 1) continue;
    send_level_rings(scenario, groups, level, share_at(groups, level), paths);
  }
  return paths;
}

// Servers on the workers' machines share their links; dedicated hosts have their own.
enum class Servers { kCounted, kApart };

double load_of(const AllReduceCost& cost, std::size_t level, Servers servers) {
  double load = 0;
  for (const LinkLoad& link : cost.links) {
    const bool counts = link.role != LinkRole::kServer || servers == Servers::kCounted;
    if (link.level == level && counts) load = std::max(load, link.load);
  }
  return load;
}

void expect_same_loads(const Scenario& scenario, const Paths& paths, const AllReduceCost& cost,
                       Servers servers = Servers::kApart) {
  for (std::size_t level = 0; level < scenario.layout.size(); ++level) {
    EXPECT_NEAR(paths.fullest(level), load_of(cost, level, servers), 1e-9)
        << "level " << level + 1 << " of " << scenario.text();
  }
}

TEST(LinkLoads, OfARingEqualThoseOfItsPaths) {
  Random random(2);
  for (int topology = 0; topology < kTopologies && !::testing::Test::HasFailure(); ++topology) {
    const Scenario scenario = random_scenario(random);
    const auto geometry = geometry_of(scenario.layout, scenario.dimension);
    expect_same_loads(scenario, flat_ring_paths(scenario),
                      ring_all_reduce(scenario.interconnect, geometry));
  }
}

TEST(LinkLoads, OfAHierarchicalAllReduceEqualThoseOfItsRings) {
  Random random(3);
  for (int topology = 0; topology < kTopologies && !::testing::Test::HasFailure(); ++topology) {
    const Scenario scenario = random_scenario(random);
    const auto geometry = geometry_of(scenario.layout, scenario.dimension);
    expect_same_loads(scenario, hierarchical_paths(scenario),
                      hierarchical_all_reduce(scenario.interconnect, geometry));
  }
}

// An aggregation tree from the top level that a group spans down to `bottom`: all its levels
// aggregate, and the levels below scatter first.
struct AggregationScenario {
  Scenario scenario;
  std::size_t top = 0;
  std::size_t bottom = 0;
  Aggregation aggregation;
};

AggregationScenario random_aggregation(Random& random) {
  while (true) {
    AggregationScenario made{.scenario = random_scenario(random)};
    Scenario& scenario = made.scenario;
    const Groups groups(scenario.layout, scenario.dimension);
    const Digits& own = groups.own_sizes();
    while (own[made.top] == 1) ++made.top;
    if (scenario.interconnect.levels[made.top].kind != LevelKind::kSwitch) continue;
    made.aggregation.wire_bytes_per_value = 2;
    made.aggregation.payload_bytes = 1000;
    made.aggregation.header_bytes = static_cast<std::uint32_t>(random.below(500));
    if (random.chance(0.5)) made.aggregation.placement = ServerPlacement::kColocated;
    if (random.chance(0.5)) {
      const std::uint64_t devices = scenario.interconnect.levels[made.top].count *
                                    devices_per_child(scenario.interconnect, made.top);
      made.aggregation.server_hosts = static_cast<std::uint32_t>(1 + random.below(devices));
    }
    made.bottom = made.top;
    for (std::size_t level = made.top; level < own.size(); ++level) {
      Level& here = scenario.interconnect.levels[level];
      if (here.kind != LevelKind::kSwitch || (level > made.top && random.chance(0.3))) break;
      here.aggregation = made.aggregation;
      if (own[level] > 1) made.bottom = level;
    }
    // An aggregating level below would start another tree.
    for (std::size_t level = made.bottom + 1; level < own.size(); ++level) {
      scenario.interconnect.levels[level].aggregation.reset();
    }
    return made;
  }
}

// Sends one group's sum through the server hosts under its switch, the one above `somewhere`. From
// host to host the topmost digit changes first, which spreads the hosts evenly at every level.
void add_hosts(const AggregationScenario& made, const Digits& somewhere, double wire,
               Paths& paths) {
  const std::uint32_t hosts = made.aggregation.server_hosts;
  for (std::uint32_t host = 0; host < hosts; ++host) {
    Digits device = somewhere;
    std::uint32_t rest = host;
    for (std::size_t level = made.top; level < device.size(); ++level) {
      const std::uint32_t count = made.scenario.interconnect.levels[level].count;
      device[level] = rest % count;
      rest /= count;
    }
    for (const Direction direction : {Direction::kUp, Direction::kDown}) {
      paths.climb(device, made.top, wire / hosts, direction);
    }
  }
}

// Checks the load of a dedicated server host, with the groups of one top switch counted one by one.
void expect_server_load(const AggregationScenario& made, const AllReduceCost& cost) {
  const Groups groups(made.scenario.layout, made.scenario.dimension);
  const Digits member = groups.all_members().front();
  const auto unit_of = [&](const Digits& other) {
    return Paths::prefix(groups.device({member, other}), made.top);
  };
  const auto all = groups.all_groups();
  const auto meeting = std::count_if(all.begin(), all.end(), [&](const Digits& other) {
    return unit_of(other) == unit_of(all.front());
  });
  const double wire = 2.0 / 4 * (1000 + made.aggregation.header_bytes) / 1000;
  const auto link = std::find_if(cost.links.begin(), cost.links.end(), [](const LinkLoad& each) {
    return each.role == LinkRole::kServer;
  });
  ASSERT_NE(link, cost.links.end()) << made.scenario.text();
  EXPECT_NEAR(link->load, meeting * wire / made.aggregation.server_hosts, 1e-9)
      << made.scenario.text();
}

Paths aggregation_paths(const AggregationScenario& made) {
  const Scenario& scenario = made.scenario;
  const Groups groups(scenario.layout, scenario.dimension);
  const double wire = 2.0 / 4 * (1000 + made.aggregation.header_bytes) / 1000;
  const std::size_t levels = scenario.layout.size();
  Paths paths(scenario.interconnect);
  for (std::size_t level = levels; level-- > made.bottom + 1;) {
    if (groups.own_sizes()[level] == 1) continue;
    send_level_rings(scenario, groups, level, share_at(groups, level), paths);
  }
  const auto members = groups.all_members();
  const double share = share_at(groups, made.bottom);
  for (const Digits& other : groups.all_groups()) {
    for (const Digits& own : members) {
      const Digits device = groups.device({own, other});
      // Each member's share goes up to the tree's lowest switch and comes back.
      for (const Direction direction : {Direction::kUp, Direction::kDown}) {
        paths.climb(device, made.bottom, wire * share, direction);
        // The first member of a child represents the single sum that leaves the child's switch.
        for (std::size_t level = made.top; level < made.bottom; ++level) {
          const bool is_first = std::all_of(own.begin() + level + 1, own.end(),
                                            [](std::uint32_t digit) { return digit == 0; });
          if (is_first) paths.add_uplink(device, level, wire, direction);
        }
        // The server on every member receives and returns its part of the sum.
        if (made.aggregation.placement == ServerPlacement::kColocated &&
            made.aggregation.server_hosts == 0) {
          paths.climb(device, made.top, wire / members.size(), direction);
        }
      }
    }
    if (made.aggregation.placement == ServerPlacement::kColocated) {
      const Digits somewhere = groups.device({members.front(), other});
      add_hosts(made, somewhere, wire, paths);
    }
  }
  return paths;
}

TEST(LinkLoads, OfAggregationEqualThoseOfItsTrees) {
  Random random(4);
  for (int topology = 0; topology < kTopologies && !::testing::Test::HasFailure(); ++topology) {
    const AggregationScenario made = random_aggregation(random);
    const auto geometry = geometry_of(made.scenario.layout, made.scenario.dimension);
    const AllReduceCost cost = aggregating_all_reduce(made.scenario.interconnect, geometry, 4);
    const bool apart = made.aggregation.placement == ServerPlacement::kDedicated;
    expect_same_loads(made.scenario, aggregation_paths(made), cost,
                      apart ? Servers::kApart : Servers::kCounted);
    if (apart && made.aggregation.server_hosts > 0) expect_server_load(made, cost);
  }
}

}  // namespace
}  // namespace atp::planner
