#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <string>
#include <thread>
#include <vector>

#include "atp/sim/probes.h"
#include "tests/virtual_network/scenario.h"

// Compares the cost of the nodes with that of the loop that carries their packets: a run, and the
// same packets from the same hosts at the same times on a network without nodes. Also shows where
// the time of a run goes. Times are printed, never judged.

namespace atp::sim {
namespace {

// Samples, many times a second, which part of the simulator its creator's thread is in.
class PartSampler {
 public:
  using Counts = std::array<std::uint64_t, kPartNames.size()>;

  PartSampler() : thread_([this, watched = &Within::current] { sample(*watched); }) {}
  ~PartSampler() {
    stop_ = true;
    thread_.join();
  }
  PartSampler(const PartSampler&) = delete;
  PartSampler& operator=(const PartSampler&) = delete;

  Counts counts() const {
    Counts counts{};
    for (std::size_t i = 0; i < counts.size(); ++i) counts[i] = counts_[i];
    return counts;
  }

 private:
  void sample(const std::atomic<Part>& watched) {
    while (!stop_) {
      ++counts_[static_cast<std::size_t>(watched.load(std::memory_order_relaxed))];
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }

  std::array<std::atomic<std::uint64_t>, kPartNames.size()> counts_{};
  std::atomic<bool> stop_ = false;
  std::thread thread_;  // last, because it uses the other members
};

struct Sent {
  Picoseconds when;
  Network::Flight flight;
};

// Eight workers in one rack, fragments of two values.
Plan one_rack() {
  Plan plan = small_plan(8, {20000, 20000});
  plan.switch_config.aggregators = 65536;
  plan.server_config.wmax = 256;
  plan.jobs[0].max_value_count = 2;
  const LinkPlan link{.bits_per_s = 100'000'000'000, .delay = std::chrono::nanoseconds(500)};
  plan.fabric.worker = plan.fabric.server = plan.fabric.switch_node = link;
  return plan;
}

// CPU time, because other programs may run at the same time.
double seconds_since(std::clock_t begin) {
  return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

std::vector<Sent> record(const Plan& plan) {
  World world(plan);
  std::vector<Sent> list;
  world.set_tap([&](const Packet& packet) {
    Network::Flight flight{.from = packet.from, .to = packet.to};
    for (HostId host = 0; host < world.host_count(); ++host) {
      if (world.endpoint(host) == packet.from) flight.sender = host;
      if (world.endpoint(host) == packet.to) flight.receiver = host;
    }
    flight.length = static_cast<std::uint32_t>(packet.bytes.size());
    list.push_back({picoseconds(world.now()), flight});
    return Verdict{};
  });
  EXPECT_TRUE(world.run_to_completion());
  return list;
}

// Sends each packet of the list at its time, and takes every arrival.
std::uint64_t carry(const std::vector<Sent>& list, const Plan& plan) {
  Network network;
  network.add_host(0, plan.fabric.server, {});
  network.add_host(0, plan.fabric.switch_node, {});
  for (int i = 0; i < 8; ++i) network.add_host(0, plan.fabric.worker, {});
  const std::vector<std::uint8_t> bytes(1500);
  std::uint64_t arrived = 0;
  const auto take_until = [&](Picoseconds end) {
    while (const auto event = network.take_next(end)) {
      network.end_flight(event->index);
      ++arrived;
    }
  };
  for (const Sent& sent : list) {
    take_until(sent.when);
    Network::Flight flight = sent.flight;
    flight.payload = network.put_payload(std::span(bytes).first(flight.length));
    network.send(sent.when, flight, 0);
    network.drop_payload(flight.payload);
  }
  take_until(kNeverPs - 1);
  return arrived;
}

TEST(LeanLoop, CarriesTheSamePacketsWithoutNodes) {
  const Plan plan = one_rack();
  const std::vector<Sent> list = record(plan);
  double whole = 1e9;
  double bare = 1e9;
  for (int i = 0; i < 5; ++i) {
    std::clock_t begin = std::clock();
    World world(plan);
    EXPECT_TRUE(world.run_to_completion());
    whole = std::min(whole, seconds_since(begin));
    begin = std::clock();
    EXPECT_EQ(carry(list, plan), list.size());
    bare = std::min(bare, seconds_since(begin));
  }
  const auto packets = static_cast<double>(list.size());
  std::printf("  %zu packets: %.0f ns each with the nodes, %.0f ns on the bare loop, ratio %.2f\n",
              list.size(), whole / packets * 1e9, bare / packets * 1e9, whole / bare);
}

TEST(LeanLoop, ShowsWhereTheTimeOfARunGoes) {
  const Plan plan = one_rack();
  const PartSampler sampler;
  for (int i = 0; i < 3; ++i) {
    World world(plan);
    EXPECT_TRUE(world.run_to_completion());
  }
  const PartSampler::Counts counts = sampler.counts();
  std::uint64_t all = 0;
  for (const std::uint64_t count : counts) all += count;
  ASSERT_GT(all, 0u);
  std::printf("  of %llu samples:", static_cast<unsigned long long>(all));
  for (std::size_t i = 0; i < counts.size(); ++i) {
    std::printf(" %s %.0f %%", kPartNames[i],
                100 * static_cast<double>(counts[i]) / static_cast<double>(all));
  }
  std::printf("\n");
}

}  // namespace
}  // namespace atp::sim
