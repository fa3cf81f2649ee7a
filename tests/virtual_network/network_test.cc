#include "atp/sim/network.h"

#include <gtest/gtest.h>

#include <vector>

#include "atp/sim/path.h"

// The network alone: when packets arrive, and which ones queues drop and mark.

namespace atp::sim {
namespace {

class Wire : public testing::Test {
 protected:
  // Sends a packet that has 306 bytes on the wire, or another number.
  void send(HostId from, HostId to, Picoseconds when = 0, std::uint32_t wire_bytes = 306) {
    const auto length = static_cast<std::uint32_t>(wire_bytes - kWireOverheadBytes);
    const std::vector<std::uint8_t> bytes(length);
    Network::Flight flight{.sender = from, .receiver = to, .length = length};
    flight.payload = network_.put_payload(bytes);
    network_.send(0, flight, when);
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

// Host 1, whose port has a queue of 1,000 bytes that marks from 500 bytes on.
class QueueBeforeAHost : public Wire {
 protected:
  void add_hosts(Duration packet_time) {
    LinkPlan port = kHundredGigabit;
    port.packet_time = packet_time;
    port.delay = std::chrono::microseconds(3);
    port.queue_bytes = 1000;
    port.ecn_bytes = 500;
    network_.add_host(0, {}, {});
    network_.add_host(0, port, {});
  }
};

class QueueOfAnyHost : public QueueBeforeAHost, public testing::WithParamInterface<int> {};

TEST_P(QueueOfAnyHost, HasItsBytesHoweverLongTheHostTakesForAPacket) {
  add_hosts(std::chrono::nanoseconds(GetParam()));
  for (int i = 0; i < 10; ++i) send(0, 1);
  EXPECT_EQ(arrivals().size(), 4);
  EXPECT_EQ(network_.lost_in_queues(), 6);
  EXPECT_EQ(marked_, 2);
}

INSTANTIATE_TEST_SUITE_P(Nanoseconds, QueueOfAnyHost, testing::Values(0, 1, 18, 1000));

TEST_F(QueueBeforeAHost, HasTheBytesOfThePacketsInItWhateverTheLengthOfTheNext) {
  add_hosts(std::chrono::nanoseconds(1000));
  send(0, 1, 0, 900);
  for (int i = 0; i < 3; ++i) send(0, 1, 0, 100);  // behind 900, 1,000 and 1,100 bytes
  EXPECT_EQ(arrivals().size(), 3);
  EXPECT_EQ(marked_, 2);
}

TEST_F(QueueBeforeAHost, LosesAPacketsBytesEvenlyWhileTheHostTakesIt) {
  add_hosts(std::chrono::nanoseconds(1000));
  for (int i = 0; i < 4; ++i) send(0, 1);
  // The first takes 1,024 ns, its last 82 bytes 275 of these; with them 1,000 bytes are queued.
  send(0, 1, 748'000);
  send(0, 1, 752'000);
  send(0, 1, 3 * 1'024'480 + 700'000);  // behind 97 bytes of the fourth, and the fifth
  EXPECT_EQ(arrivals().size(), 6);
  EXPECT_EQ(network_.lost_in_queues(), 1);
  EXPECT_EQ(marked_, 3);
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
