#include "atp/sim/network.h"

#include <gtest/gtest.h>

#include <vector>

#include "atp/sim/path.h"

// The network alone: when packets arrive, and which ones queues drop and mark.

namespace atp::sim {
namespace {

class Wire : public testing::Test {
 protected:
  // Sends a packet of 306 − 66 bytes, 306 on the wire.
  void send(HostId from, HostId to) {
    const std::vector<std::uint8_t> bytes(240);
    Network::Flight flight{.sender = from, .receiver = to, .length = 240};
    flight.payload = network_.put_payload(bytes);
    network_.send(0, flight, 0);
    network_.drop_payload(flight.payload);
  }
  std::vector<Picoseconds> arrivals() {
    std::vector<Picoseconds> times;
    while (const auto event = network_.take_next(kNeverPs - 1)) {
      times.push_back(network_.now());
      marked_ += network_.flight(event->index).marked ? 1 : 0;
      network_.end_flight(event->index);
    }
    return times;
  }

  Network network_;
  int marked_ = 0;
};

constexpr LinkPlan kHundredGigabit{.bits_per_s = 100'000'000'000};

TEST_F(Wire, TakesWholePicosecondsForAByte) {
  network_.add_host(0, kHundredGigabit, {});
  network_.add_host(0, {}, {});
  send(0, 1);
  send(0, 1);
  EXPECT_EQ(arrivals(), (std::vector<Picoseconds>{24480, 48960}));
}

TEST_F(Wire, AddsTheDelaysOfTheLinksBetweenRacks) {
  const LinkPlan link{.delay = std::chrono::nanoseconds(5)};
  network_.add_host(0, link, link);
  network_.add_host(1, link, link);
  network_.add_host(0, link, link);
  send(0, 1);
  send(0, 2);
  EXPECT_EQ(arrivals(), (std::vector<Picoseconds>{10000, 20000}));
}

TEST_F(Wire, DropsPacketsAtAFullQueueAndMarksThemAtALongOne) {
  LinkPlan narrow = kHundredGigabit;
  narrow.queue_bytes = 1000;
  narrow.ecn_bytes = 500;
  network_.add_host(0, narrow, {});
  network_.add_host(0, {}, {});
  for (int i = 0; i < 10; ++i) send(0, 1);
  EXPECT_EQ(arrivals().size(), 4);
  EXPECT_EQ(network_.lost_in_queues(), 6);
  EXPECT_EQ(marked_, 2);
  EXPECT_EQ(network_.in_flight(), 0);
}

TEST_F(Wire, TakesAHostsTimeForEachPacketReceived) {
  network_.add_host(0, {}, {});
  network_.add_host(0, {.packet_time = std::chrono::nanoseconds(3)}, {});
  for (int i = 0; i < 3; ++i) send(0, 1);
  EXPECT_EQ(arrivals(), (std::vector<Picoseconds>{3000, 6000, 9000}));
}

TEST(Checksum, DetectsEveryDamage) {
  Random random(7);
  for (int i = 0; i < 10000; ++i) {
    std::vector<std::uint8_t> bytes(2 + random.below(60));
    for (std::uint8_t& byte : bytes) byte = random.chance(0.5) ? 0 : 255;
    const std::uint16_t before = ones_complement_sum(bytes);
    damage(bytes, random);
    ASSERT_NE(ones_complement_sum(bytes), before);
  }
}

}  // namespace
}  // namespace atp::sim
