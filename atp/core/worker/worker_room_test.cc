#include <gtest/gtest.h>

#include <deque>

#include "atp/core/worker/worker_script_test.h"

// What a worker sends while aggregators are scarce (docs/inside/protocol §5, *Room*).

namespace atp {
namespace {

constexpr std::uint32_t kWmax = 16;

class WorkerRoom : public testing::Test {
 protected:
  void join(WorkerConfig config) {
    s.emplace(config);
    JoinAck agreement = s->ack();
    agreement.wmax = kWmax;
    agreement.stream_count = config.stream_count;
    s->join(agreement);
  }
  void join() { join(WorkerScript::default_config()); }

  // In each PARAMETER from now on.
  void say_part(std::uint32_t aggregators) { s->part = atp_part_code(aggregators); }
  void submit(std::size_t fragments) {
    s->submit(std::vector<float>(fragments * WorkerScript::kValues));
    send();
  }
  // Answers so many, oldest first, with these flags.
  void answer(std::size_t count, std::uint8_t flags = 0) {
    for (; count > 0; --count) {
      ASSERT_FALSE(in_flight.empty());
      s->answer(in_flight.front(), {0, 0, 0, 0}, kTestSwitch, flags);
      in_flight.pop_front();
      send();
    }
  }
  void send() {
    for (SentPacket& packet : gradients(s->run())) in_flight.push_back(std::move(packet));
  }
  // The room is two fragments, and as many are in flight.
  void make_scarce() {
    submit(3500);
    ASSERT_EQ(in_flight.size(), kWmax);
    answer(1 + kWmax, ATP_FLAG_COLLISION);
    while (in_flight.size() > AggregatorRoom::kLeast) answer(1);
  }
  std::uint64_t cuts() const { return s->worker.counters()[WorkerCounter::kRoomCuts]; }

  std::optional<WorkerScript> s;
  std::deque<SentPacket> in_flight;
};

TEST_F(WorkerRoom, CollisionsLeaveLessInFlight) {
  join();
  submit(1000);
  answer(100);
  EXPECT_EQ(in_flight.size(), kWmax);
  answer(1, ATP_FLAG_COLLISION);
  EXPECT_EQ(cuts(), 1u);
  EXPECT_EQ(in_flight.size(), kWmax) << "it is bounded to what it was";
  answer(4, ATP_FLAG_COLLISION);
  answer(kWmax - 4);
  EXPECT_EQ(cuts(), 2u);
  answer(4);
  EXPECT_EQ(in_flight.size(), kWmax - 4) << "no first transmission until as many were answered";
  answer(kWmax);
  EXPECT_EQ(in_flight.size(), kWmax - 4);
}

TEST_F(WorkerRoom, GrowsUntilItHasNoBoundWhileAnswersAreClean) {
  join();
  make_scarce();
  answer(1200);
  EXPECT_EQ(in_flight.size(), kWmax) << "six rounds each of 2, 3 … 15 fragments are 714 answers";
  EXPECT_EQ(cuts(), 2u);
}

TEST_F(WorkerRoom, IsNotMuchLessThanThePartHoweverManyCollide) {
  join();
  submit(3500);
  say_part(16);
  answer(200, ATP_FLAG_COLLISION);
  EXPECT_EQ(in_flight.size(), 10u);
  say_part(32);
  answer(1);
  EXPECT_EQ(in_flight.size(), kWmax) << "twice the part, twice the room";
  answer(kWmax, ATP_FLAG_COLLISION);
  say_part(0);
  answer(4 * kWmax, ATP_FLAG_COLLISION);
  EXPECT_EQ(in_flight.size(), kWmax) << "0 says nothing";
}

TEST_F(WorkerRoom, IsForAnEqualShareOfThePartAtEachOfSeveralServers) {
  WorkerConfig config = WorkerScript::default_config();
  config.servers = 2;
  join(config);
  submit(1000);
  say_part(16);
  answer(200, ATP_FLAG_COLLISION);
  EXPECT_EQ(in_flight.size(), 5u);
}

TEST_F(WorkerRoom, OperationsEndHoweverManyCollide) {
  join();
  submit(100);
  submit(3);
  answer(103, ATP_FLAG_COLLISION);
  EXPECT_TRUE(in_flight.empty());
  for (int i = 0; i < 2; ++i) EXPECT_EQ(s->worker.poll_event()->kind, EventKind::kCompleted);
}

TEST_F(WorkerRoom, ARepeatNeedsNone) {
  join();
  submit(1000);
  answer(1 + kWmax, ATP_FLAG_COLLISION);
  ASSERT_GT(in_flight.size(), AggregatorRoom::kLeast);
  s->nack(in_flight.back(), ATP_FLAG_DIRECT);
  const auto sent = gradients(s->run());
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].view().header.sequence, in_flight.back().view().header.sequence);
}

TEST_F(WorkerRoom, AStreamMayAlwaysHaveOneInFlight) {
  WorkerConfig config = WorkerScript::default_config();
  config.stream_count = 3;
  join(config);
  make_scarce();
  for (const std::uint16_t stream : {1, 2}) {
    submit(8);
    ASSERT_EQ(in_flight.size(), AggregatorRoom::kLeast + stream);
    EXPECT_EQ(in_flight.back().view().header.stream, stream);
  }
}

TEST_F(WorkerRoom, IsOneForAllStreams) {
  WorkerConfig config = WorkerScript::default_config();
  config.stream_count = 2;
  join(config);
  submit(1000);
  submit(1000);
  ASSERT_EQ(in_flight.size(), 2 * kWmax);
  answer(1, ATP_FLAG_COLLISION);
  answer(10, ATP_FLAG_COLLISION);
  answer(2 * kWmax);
  EXPECT_EQ(in_flight.size(), 2 * kWmax - 10);
}

TEST_F(WorkerRoom, CanBeSwitchedOff) {
  WorkerConfig config = WorkerScript::default_config();
  config.room = false;
  join(config);
  submit(1000);
  answer(500, ATP_FLAG_COLLISION);
  EXPECT_EQ(in_flight.size(), kWmax);
  EXPECT_EQ(cuts(), 0u);
}

}  // namespace
}  // namespace atp
