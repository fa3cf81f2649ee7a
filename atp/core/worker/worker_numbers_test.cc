// The formats in which an operation travels (docs/inside/protocol §5, *Numbers*).
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <string>

#include "atp/core/worker/worker_script_test.h"
#include "atp/wire/block_values.h"

namespace atp {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Three ranks, K = 4, an express stream.
class Numbers : public testing::Test {
 protected:
  static constexpr std::uint16_t kExpress = 1;

  Numbers() : script_(config()) {
    JoinAck ack = script_.ack();
    ack.number_format = NumberFormat::kBlocks;
    ack.stream_count = 2;
    ack.wmax = 16;
    script_.join(ack);
  }

  // An operation with blocks of one value each; a fragment holds the exponents of eight.
  OperationId submit_blocks(std::size_t blocks, Duration timeout = std::chrono::seconds(30)) {
    const OperationId id =
        script_.submit(std::vector<float>(blocks, 1.0F), {.blocks = blocks, .timeout = timeout});
    script_.tensors.layouts[id] = BlockLayout(std::vector<std::size_t>(blocks, 1));
    script_.tensors.agreed[id].resize(blocks);
    return id;
  }

  static WorkerConfig config() {
    WorkerConfig config = WorkerScript::default_config();
    config.number_format = NumberFormat::kBlocks;
    config.stream_count = 2;
    return config;
  }
  static std::int16_t int16_at(const SentPacket& gradient, std::size_t i) {
    return static_cast<std::int16_t>(atp_load16(gradient.view().body.data() + 2 * i));
  }
  static std::int32_t int32_at(const SentPacket& gradient, std::size_t i) {
    return static_cast<std::int32_t>(atp_load32(gradient.view().body.data() + 4 * i));
  }
  static std::uint8_t kind_of(const SentPacket& gradient) { return gradient.view().header.kind; }
  // Sends, and returns the only packet.
  SentPacket only() {
    const std::vector<SentPacket> sent = script_.run();
    EXPECT_EQ(sent.size(), 1u);
    return sent.empty() ? SentPacket{} : sent.front();
  }
  bool completed(OperationId id) {
    const auto event = script_.worker.poll_event();
    return event && event->kind == EventKind::kCompleted && event->operation == id;
  }

  WorkerScript script_;
};

TEST_F(Numbers, ValuesFollowTheExponentsOfTheirBlocks) {
  const OperationId id = script_.submit({1, -6, 0.5F, 0});
  const SentPacket exponents = only();
  EXPECT_EQ(kind_of(exponents), ATP_KIND_EXPONENTS);
  EXPECT_EQ(exponents.view().header.stream, kExpress);
  EXPECT_EQ(exponents.view().header.value_count, 1);
  EXPECT_EQ(int16_at(exponents, 0), 2) << "6 lies in [2^2, 2^3)";
  EXPECT_EQ(exponents.to, kTestSwitch) << "switches take the maximum";

  script_.echo(exponents);
  const SentPacket values = only();
  EXPECT_EQ(kind_of(values), ATP_KIND_SUM_BLOCKS);
  EXPECT_EQ(values.view().header.stream, 0);
  // The unit is 2^(2 + 1 + 2 - 30), as ceil(log2 3) = 2.
  EXPECT_EQ(int32_at(values, 0), 1 << 25);
  EXPECT_EQ(int32_at(values, 1), -6 * (1 << 25));
  script_.answer(values, {3 << 25, 0, 1, 0});
  EXPECT_TRUE(completed(id));
  EXPECT_EQ(script_.tensors.data.at(id), (std::vector<float>{3, 0, 0x1p-25F, 0}));
}

TEST_F(Numbers, EachFragmentWaitsForTheExponentsOfItsOwnBlocks) {
  submit_blocks(9);
  const std::vector<SentPacket> exponents = script_.run();
  ASSERT_EQ(exponents.size(), 2u);
  EXPECT_EQ(exponents[0].view().header.value_count, 8);
  script_.echo(exponents[0]);
  EXPECT_EQ(script_.run().size(), 2u) << "the ninth value's block has no agreed exponent yet";
  script_.echo(exponents[1]);
  EXPECT_EQ(only().view().header.sequence, 2u);
}

TEST_F(Numbers, ExponentsStayEightFragmentsAheadOfTheirValues) {
  submit_blocks(88);
  const std::vector<SentPacket> first = script_.run();
  ASSERT_EQ(first.size(), 8u) << "of eleven fragments";
  script_.echo(first[0]);
  const std::vector<SentPacket> values = script_.run();
  ASSERT_EQ(values.size(), 2u) << "those of the first eight blocks";
  EXPECT_EQ(kind_of(values[1]), ATP_KIND_SUM_BLOCKS);
  const SentPacket ninth = only();
  EXPECT_EQ(kind_of(ninth), ATP_KIND_EXPONENTS);
  EXPECT_EQ(ninth.view().header.sequence, 8u);
}

TEST_F(Numbers, ASmallSumDoesNotWaitBehindExponentsThatAreHeldBack) {
  submit_blocks(88);
  EXPECT_EQ(script_.run().size(), 8u);
  const OperationId small = script_.submit({1}, {.small = true});
  const std::vector<SentPacket> rest = script_.run();
  ASSERT_EQ(rest.size(), 4u) << "three with exponents and the small one";
  script_.echo(rest[3]);
  EXPECT_TRUE(completed(small));
}

TEST_F(Numbers, ExponentsThatAreHeldBackDoNotTimeOutWhileTheirValuesProgress) {
  const OperationId id = submit_blocks(96, std::chrono::seconds(2));
  // Exponents are answered at once, and one fragment of the values each second.
  std::map<std::uint64_t, SentPacket> values;
  std::uint64_t answered = 0;
  while (answered < 24) {
    for (const SentPacket& sent : script_.run()) {
      const atp_header& header = sent.view().header;
      if (header.stream != kExpress)
        values[header.sequence] = sent;
      else
        script_.echo(sent);
    }
    if (const auto next = values.find(answered); next != values.end()) {
      script_.echo(next->second);
      ++answered;
    }
    script_.advance(std::chrono::seconds(1));
    ASSERT_LT(script_.now, Instant(std::chrono::seconds(60))) << answered;
  }
  EXPECT_TRUE(completed(id));
}

TEST_F(Numbers, TheLargestExponentOfAnyRankDecides) {
  script_.submit({1});
  SentPacket exponents = only();
  atp_store16(exponents.bytes.data() + atp_body_offset(1), 5);
  script_.echo(exponents);
  EXPECT_EQ(int32_at(only(), 0), 1 << 22);
}

TEST_F(Numbers, ABlockOfZerosAndABlockWithNanHaveTheirOwnNumbers) {
  script_.submit({0, -0.0F});
  script_.submit({1, kNan});
  const std::vector<SentPacket> sent = script_.run();
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(int16_at(sent[0], 0), kZeroBlock);
  EXPECT_EQ(int16_at(sent[1], 0), kSpecialBlock);
  script_.echo(sent[0]);
  script_.echo(sent[1]);
  const std::vector<SentPacket> values = script_.run();
  ASSERT_EQ(values.size(), 2u);
  EXPECT_EQ(int32_at(values[0], 0), 0);
  EXPECT_EQ(values[0].to, kTestSwitch);
  EXPECT_EQ(kind_of(values[1]), ATP_KIND_SUM_EXACT) << "without waiting to be asked";
  EXPECT_EQ(values[1].to, kTestServer);
  EXPECT_TRUE(values[1].view().has(ATP_FLAG_FLOAT));
  EXPECT_TRUE(values[1].view().has(ATP_FLAG_DIRECT));
}

TEST_F(Numbers, AFragmentBesideASpecialBlockCarriesRoundedValues) {
  const OperationId id = script_.submit({1, kNan}, {.format = NumberFormat::kBlocks});
  script_.tensors.layouts[id] = BlockLayout(std::vector<std::size_t>{1, 1});
  script_.tensors.agreed[id].resize(2);
  script_.tensors.data[id] = {1 + 0x1p-23F, kNan};
  // It was submitted as one block; the test sets the agreed exponents of two by hand.
  script_.tensors.agreed[id] = {20, kSpecialBlock};
  Operation operation{.id = id, .spec = {.count = 2}, .kind = ATP_KIND_SUM_BLOCKS, .lanes = 2};
  operation.per_fragment = 4;
  operation.fragments = 1;
  std::uint8_t wire[8];
  FragmentValues(3, 1).write(operation, 0, ATP_KIND_SUM_EXACT, false, script_.tensors, wire);
  EXPECT_EQ(std::bit_cast<float>(atp_load32(wire)), 1.0F)
      << "rounded to units of 2^(20 + 1 + 2 - 30)";
  EXPECT_TRUE(std::isnan(std::bit_cast<float>(atp_load32(wire + 4))));
}

TEST_F(Numbers, ASmallSumGoesStraightAsFloatsPastALargeOne) {
  script_.submit(std::vector<float>(100, 1.0F));
  const OperationId small = script_.submit({1e-30F, 7}, {.small = true});
  const std::vector<SentPacket> sent = gradients(script_.run());
  ASSERT_EQ(sent.size(), 2u);
  const SentPacket& floats = sent[1];
  EXPECT_EQ(kind_of(floats), ATP_KIND_SUM_EXACT);
  EXPECT_EQ(floats.to, kTestServer);
  EXPECT_EQ(floats.view().header.stream, kExpress);
  EXPECT_EQ(floats.view().header.value_count, 2) << "no padding";
  script_.echo(floats);
  EXPECT_TRUE(completed(small));
}

TEST_F(Numbers, IntegersAndMaximaTravelPlainInOneRoundTrip) {
  const OperationId max = script_.submit({-1, 2}, {.reduction = Reduction::kMax});
  const SentPacket sent = only();
  EXPECT_EQ(kind_of(sent), ATP_KIND_MAX_PLAIN);
  EXPECT_EQ(sent.to, kTestSwitch);
  script_.echo(sent);
  EXPECT_TRUE(completed(max));
  EXPECT_EQ(script_.tensors.data.at(max), (std::vector<float>{-1, 2}));
  script_.submit({0, 0}, {.type = DataType::kInt32});
  EXPECT_EQ(kind_of(only()), ATP_KIND_SUM_PLAIN);
}

TEST_F(Numbers, AFragmentHoldsTwiceAsManySixteenBitValues) {
  script_.submit(std::vector<float>(9, -1.0F), {.format = NumberFormat::kBlocksInt16});
  script_.echo(only());
  const std::vector<SentPacket> sent = script_.run();
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(kind_of(sent[0]), ATP_KIND_SUM_BLOCKS_INT16);
  EXPECT_EQ(sent[0].view().header.value_count, 8);
  EXPECT_EQ(sent[1].view().header.value_count, 1);
  EXPECT_EQ(int16_at(sent[0], 0), -(1 << 12)) << "the unit is 2^(0 + 1 + 2 - 15)";
}

TEST_F(Numbers, APacketOfAnotherShapeIsDropped) {
  script_.submit({1, 2}, {.reduction = Reduction::kMax});
  const SentPacket sent = only();
  SentPacket other = sent;
  other.bytes[ATP_AT_KIND] = ATP_KIND_SUM_PLAIN;
  script_.echo(other);
  SentPacket shorter = sent;
  shorter.bytes[ATP_AT_VALUE_COUNT + 1] = 1;
  shorter.bytes.resize(shorter.bytes.size() - 4);
  script_.echo(shorter);
  script_.answer(sent, {1, 2}, kTestSwitch, ATP_FLAG_FLOAT);
  EXPECT_EQ(script_.worker.counters()[WorkerCounter::kDropWrongShape], 3u);
}

TEST_F(Numbers, AnImpossibleExponentNeitherCrashesNorIndexes) {
  for (const int agreed : {128, 32000, -150, -32000}) {
    const OperationId id = script_.submit({3});
    SentPacket exponents = only();
    atp_store16(exponents.bytes.data() + atp_body_offset(1), static_cast<std::uint16_t>(agreed));
    script_.echo(exponents);
    script_.echo(only());
    EXPECT_TRUE(completed(id)) << agreed;
  }
}

TEST_F(Numbers, FragmentsThatGoStraightFromTheStartDoNotDetachWhenPeersAreSlow) {
  script_.submit({1}, {.small = true});
  script_.run();
  for (int i = 0; i < 8; ++i) script_.run_to_timer();
  EXPECT_TRUE(script_.worker.attached());
}

TEST(OtherVersion, ASwitchOrServerWithAnotherVersionFailsTheJoinWithAReason) {
  for (const Endpoint& from : {kTestSwitch, kTestServer}) {
    WorkerScript script;
    script.worker.start(script.now);
    SentPacket join = joins(script.run()).at(0);
    join.bytes[ATP_AT_VERSION] = 1;
    script.worker.handle_packet(script.now, Endpoint::ipv4(9, 9, 9, 9, 9), join.bytes,
                                script.tensors, script.out);
    EXPECT_FALSE(script.worker.poll_event()) << "other senders are ignored";
    script.worker.handle_packet(script.now, from, join.bytes, script.tensors, script.out);
    const auto event = script.worker.poll_event();
    ASSERT_TRUE(event && event->kind == EventKind::kFailed);
    EXPECT_EQ(event->failure.reason, RefusalReason::kVersion);
    EXPECT_EQ(event->failure.expected, 0x0101u);
    EXPECT_EQ(event->failure.found, 0x0202u);
    EXPECT_EQ(event->failure.endpoint, from);
  }
}

TEST(ProactiveOverflow, SendsValuesThatMightOverflowPastTheSwitchesAndCountsFalsePositives) {
  const struct {
    std::string what;
    float value;
    bool kept;
    std::uint8_t answer_flags;
    std::uint64_t false_positives;
  } cases[] = {
      {"within a third of the range of three workers", 7158278, false, 0, 0},
      {"a little more, and the sum fits", 7158300, true, 0, 1},
      {"a little more, and the sum does not", 7158300, true, ATP_FLAG_FLOAT, 0},
      {"beyond an int32 by itself", 1e9F, true, ATP_FLAG_FLOAT, 0},
  };
  for (const auto& c : cases) {
    WorkerConfig config = WorkerScript::default_config();
    config.overflow = OverflowPolicy::kProactive;
    WorkerScript script(config);
    script.join();
    script.submit({c.value});
    const std::vector<SentPacket> sent = script.run();
    ASSERT_EQ(sent.size(), 1u);
    EXPECT_EQ(sent[0].view().has(ATP_FLAG_DIRECT), c.kept) << c.what;
    EXPECT_EQ(sent[0].to, kTestSwitch) << c.what;
    script.answer(sent[0], {1}, kTestSwitch, c.answer_flags);
    const auto& counters = script.worker.counters();
    EXPECT_EQ(counters[WorkerCounter::kProactiveFragments], c.kept ? 1u : 0u) << c.what;
    EXPECT_EQ(counters[WorkerCounter::kProactiveFalsePositives], c.false_positives) << c.what;
  }
}

}  // namespace
}  // namespace atp
