#include <gtest/gtest.h>

#include "atp/core/worker/worker_script_test.h"

// Operations, their order, and dropped packets.

namespace atp {
namespace {

TEST(WorkerOperation, SplitsATensorAndWritesTheSums) {
  WorkerScript s;
  s.join();
  const OperationId id = s.submit({1, -1, 0.5F, 0.25F, 3});
  const auto sent = gradients(s.run());
  ASSERT_EQ(sent.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(sent[i].to, kTestSwitch);
    EXPECT_EQ(sent[i].view().header.sequence, i);
    EXPECT_EQ(sent[i].view().header.flags, 0);
    EXPECT_EQ(sent[i].view().header.value_count, i == 0 ? WorkerScript::kValues : 1);
    EXPECT_EQ(sent[i].view().ranks, RankSet::of(1));
  }
  EXPECT_EQ(sent[0].view().header.magnitude, 100u);
  EXPECT_EQ(atp_load32(sent[1].view().body.data()), 300u);

  s.answer(sent[1], {600, 9, 9, 9});
  EXPECT_FALSE(s.worker.poll_event().has_value());
  s.answer(sent[0], {200, -200, 150, 25});
  const auto event = s.worker.poll_event();
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->kind, EventKind::kCompleted);
  EXPECT_EQ(event->operation, id);
  EXPECT_EQ(s.tensors.data[id], (std::vector<float>{2, -2, 1.5F, 0.25F, 6}));
}

TEST(WorkerOperation, AnAverageIsDividedByTheWorldSize) {
  WorkerScript s;
  s.join();
  const OperationId id = s.submit({1}, Reduction::kAverage);
  s.answer(gradients(s.run()).at(0), {600, 0, 0, 0});
  EXPECT_EQ(s.tensors.data[id], (std::vector<float>{2}));
}

TEST(WorkerOperation, AnEmptyTensorCompletesWithoutAPacket) {
  WorkerScript s;
  s.join();
  const OperationId id = s.submit({});
  EXPECT_TRUE(gradients(s.run()).empty());
  const auto event = s.worker.poll_event();
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->operation, id);
}

TEST(WorkerOperation, AnEmptyTensorTakesANumberAndOvertakesPendingOperations) {
  WorkerScript s;
  s.join();
  const OperationId pending = s.submit({1, 2, 3, 4});
  const OperationId empty = s.submit({});
  EXPECT_EQ(empty, pending + 1);
  const auto event = s.worker.poll_event();
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->operation, empty);
  EXPECT_FALSE(s.worker.poll_event().has_value());
  EXPECT_EQ(s.submit({5}), empty + 1);
}

TEST(WorkerOperation, NothingIsSubmittedBeforeJoiningOrBeyondTheLimit) {
  WorkerScript s;
  EXPECT_FALSE(s.worker.submit(s.now, {.count = 1}).has_value());
  s.join();
  for (int i = 0; i < 64; ++i) s.submit({});
  EXPECT_FALSE(s.worker.submit(s.now, {.count = 1}).has_value());
  s.worker.poll_event();
  EXPECT_TRUE(s.worker.submit(s.now, {.count = 1}).has_value());
}

TEST(WorkerOperation, NothingIsSubmittedWhileTheOldestKeepsThePlacesOfThoseThatEndedOccupied) {
  WorkerConfig config = WorkerScript::default_config();
  config.max_operations = 4;
  WorkerScript s(config);
  s.join();
  for (int i = 0; i < 4; ++i) s.submit({1, 2, 3, 4});
  const auto sent = gradients(s.run());
  ASSERT_EQ(sent.size(), 4u);
  for (std::size_t i : {1u, 2u, 3u}) {
    s.answer(sent[i], {0, 0, 0, 0});
    EXPECT_TRUE(s.worker.poll_event().has_value());
  }
  EXPECT_FALSE(s.worker.submit(s.now, {.count = 1}).has_value());
  s.answer(sent[0], {0, 0, 0, 0});
  EXPECT_TRUE(s.worker.poll_event().has_value());
  for (int i = 0; i < 4; ++i) s.submit({1});
}

TEST(WorkerOrder, ASequenceWaitsForAllThatAreAWindowOrMoreBeforeIt) {
  WorkerScript s;  // Wmax is 4
  s.join();
  s.submit(std::vector<float>(4 * 8, 1.0F));
  const auto sent = gradients(s.run());
  ASSERT_EQ(sent.size(), 4u);
  for (std::size_t i : {1u, 2u, 3u}) s.answer(sent[i], {0, 0, 0, 0});
  EXPECT_TRUE(gradients(s.run()).empty()) << "0 is still unanswered (model-check B5)";
  s.answer(sent[0], {0, 0, 0, 0});
  EXPECT_EQ(gradients(s.run()).size(), 4u);
}

TEST(WorkerOrder, ATensorGoesToTheStreamWithTheFewestValuesSoFar) {
  WorkerConfig config = WorkerScript::default_config();
  config.stream_count = 2;
  WorkerScript s(config);
  JoinAck agreement = s.ack();
  agreement.stream_count = 2;
  s.join(agreement);
  const auto stream_of = [&](std::size_t values) {
    s.submit(std::vector<float>(values));
    return gradients(s.run()).at(0).view().header.stream;
  };
  EXPECT_EQ(stream_of(3), 0) << "the lowest if several are equal";
  EXPECT_EQ(stream_of(1), 1);
  EXPECT_EQ(stream_of(1), 1);
  EXPECT_EQ(stream_of(2), 1);
  EXPECT_EQ(stream_of(1), 0);
}

TEST(WorkerOrder, TheNextIndexIsUsedOneWindowLater) {
  WorkerScript s;
  s.join();
  s.submit(std::vector<float>(4 * 6, 1.0F));
  const auto sent = gradients(s.run());
  for (std::size_t i = 0; i < 4; ++i)
    s.answer(sent[i], {0, 0, 0, 0}, kTestSwitch, 0, (1000 + i) << 8);
  const auto later = gradients(s.run());
  ASSERT_EQ(later.size(), 2u);
  EXPECT_EQ(later[0].view().header.aggregator_index, 1000u << 8);
  EXPECT_EQ(later[1].view().header.aggregator_index, 1001u << 8);
}

TEST(WorkerState, IsAValue) {
  WorkerScript s;
  s.join();
  s.submit({1, 2, 3, 4});
  const auto sent = gradients(s.run());
  Worker copy = s.worker;
  EXPECT_EQ(copy, s.worker);
  s.answer(sent[0], {100, 200, 300, 400});
  EXPECT_FALSE(copy == s.worker);
  std::swap(copy, s.worker);
  s.answer(sent[0], {100, 200, 300, 400});
  EXPECT_EQ(copy, s.worker) << "the same packet at the same time has the same effect";
}

TEST(WorkerOrder, NoMoreIsInFlightThanTheCongestionWindowAllows) {
  WorkerScript s;
  JoinAck agreement = s.ack();
  agreement.wmax = 1024;
  s.join(agreement);
  s.submit(std::vector<float>(300 * WorkerScript::kValues));
  const auto sent = gradients(s.run());
  EXPECT_EQ(sent.size(), AggregatorRoom::kFirst) << "until the first answer";
  s.answer(sent[0], {0, 0, 0, 0});
  const auto more = gradients(s.run());
  EXPECT_EQ(sent.size() - 1 + more.size(), CongestionWindow::kInitialPackets);
  s.answer(sent[1], {0, 0, 0, 0});
  EXPECT_EQ(gradients(s.run()).size(), 2u) << "slow start";
}

TEST(WorkerOperation, FlagsAValueThatIsTooLargeForTheFixedScale) {
  WorkerScript s;
  s.join();
  s.submit({1e30F});
  s.submit({1});
  const auto sent = gradients(s.run());
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_TRUE(sent[0].view().has(ATP_FLAG_OVERFLOW));
  EXPECT_FALSE(sent[1].view().has(ATP_FLAG_OVERFLOW));
}

TEST(WorkerDrops, AForeignPacketIsCountedUnderItsOwnName) {
  struct Case {
    const char* name;
    void (*spoil)(atp_header&);
    Endpoint from;
    WorkerCounter counter;
  };
  const auto keep = [](atp_header&) {};
  const Case cases[] = {
      {"a stranger's", keep, Endpoint::ipv4(6, 6, 6, 6, 6), WorkerCounter::kDropWrongSource},
      {"of another job", [](atp_header& h) { ++h.job; }, kTestSwitch, WorkerCounter::kDropWrongJob},
      {"of another incarnation", [](atp_header& h) { ++h.incarnation; }, kTestSwitch,
       WorkerCounter::kDropWrongJob},
      {"of a foreign stream", [](atp_header& h) { h.stream = 9; }, kTestSwitch,
       WorkerCounter::kDropWrongStream},
      {"of an unsent sequence", [](atp_header& h) { h.sequence = 40; }, kTestSwitch,
       WorkerCounter::kDropUnsentSequence},
      {"of another operation", [](atp_header& h) { ++h.operation; }, kTestSwitch,
       WorkerCounter::kDropWrongOperation},
      {"a GRADIENT", [](atp_header& h) { h.type = ATP_GRADIENT; }, kTestSwitch,
       WorkerCounter::kDropWrongDirection},
      {"of another version", [](atp_header& h) { h.version = 1; }, kTestSwitch,
       WorkerCounter::kDropUnknownVersion},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    WorkerScript s;
    s.join();
    const OperationId id = s.submit({1, 2, 3, 4});
    const SentPacket gradient = gradients(s.run()).at(0);
    std::vector<std::uint8_t> bytes = gradient.bytes;
    atp_header h = gradient.view().header;
    h.type = ATP_PARAMETER;
    c.spoil(h);
    write_packet_head(bytes.data(), h, RankSet::first(3));
    s.worker.handle_packet(s.now, c.from, bytes, s.tensors, s.out);
    EXPECT_EQ(s.worker.counters()[c.counter], 1u);
    EXPECT_EQ(s.tensors.data[id], (std::vector<float>{1, 2, 3, 4}));
  }
}

TEST(WorkerDrops, APacketAddressedOnlyToOtherRanksIsCounted) {
  WorkerScript s;
  s.join();
  s.submit({1});
  std::vector<std::uint8_t> bytes = gradients(s.run()).at(0).bytes;
  bytes[ATP_AT_TYPE] = ATP_PARAMETER;
  for (const bool to_all : {false, true}) {
    const RankSet to = to_all ? RankSet::first(3) : RankSet::first(3) - RankSet::of(1);
    atp_store64(bytes.data() + ATP_AT_BITMAP, to.words()[0]);
    s.worker.handle_packet(s.now, kTestSwitch, bytes, s.tensors, s.out);
    EXPECT_EQ(s.worker.poll_event().has_value(), to_all);
  }
  EXPECT_EQ(s.worker.counters()[WorkerCounter::kDropNotAddressed], 1u);
}

// E: packets left without their values.
TEST(PublishedDefect, EveryGradientCarriesItsValues) {
  WorkerScript s;
  s.join();
  s.submit({1, 2, 3, 4, 5, 6});
  const auto sent = gradients(s.run());
  ASSERT_EQ(sent.size(), 2u);
  const auto value = [&](std::size_t packet, std::size_t i) {
    return atp_load32(sent[packet].view().body.data() + 4 * i);
  };
  for (std::uint32_t i = 0; i < 4; ++i) EXPECT_EQ(value(0, i), 100 * (i + 1));
  for (std::uint32_t i = 0; i < 2; ++i) EXPECT_EQ(value(1, i), 100 * (i + 5));
}

}  // namespace
}  // namespace atp
