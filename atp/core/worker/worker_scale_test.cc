// The automatic scale as a worker uses it (docs/protocol.md §5, *Scale*).
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "atp/core/worker/worker_script_test.h"

namespace atp {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class AutomaticScale : public testing::Test {
 protected:
  AutomaticScale() : script(config()) {
    JoinAck ack = script.ack();
    ack.number_format = NumberFormat::kBlocks;
    ack.scale = 0x1p20;
    script.worker.start(script.now);
    script.run();
    script.receive_ack(ack, kTestSwitch);
    script.run();
  }

  static WorkerConfig config() {
    WorkerConfig config = WorkerScript::default_config();
    config.number_format = NumberFormat::kBlocks;
    return config;
  }

  // The first integer of a sent GRADIENT.
  static std::int32_t first_value(const Sent& gradient) {
    return static_cast<std::int32_t>(atp_load32(gradient.view().body.data()));
  }

  // An operation of one fragment of the value 1, answered; what it sent for the value 1.
  std::int32_t one_step(double magnitude) {
    script.submit({1, 0, 0, 0});
    const std::vector<Sent> sent = script.run();
    EXPECT_EQ(sent.size(), 1u);
    script.answer_with_magnitude(sent.at(0), static_cast<std::uint32_t>(magnitude));
    return first_value(sent.at(0));
  }

  // As one_step(), answered in float mode with these sums.
  std::int32_t one_float_step(const std::vector<float>& sums) {
    script.submit({1, 0, 0, 0});
    const std::vector<Sent> sent = script.run();
    std::vector<std::int32_t> bits;
    for (const float sum : sums) bits.push_back(std::bit_cast<std::int32_t>(sum));
    script.answer(sent.at(0), bits, kTestSwitch, ATP_FLAG_FLOAT);
    return first_value(sent.at(0));
  }

  WorkerScript script;
};

TEST_F(AutomaticScale, FollowsTheMagnitudeOfTheOneBefore) {
  EXPECT_EQ(one_step(0x1p27), 1 << 20);
  EXPECT_EQ(one_step(0x1p30), 1 << 22);
  EXPECT_EQ(one_step(0x1p29), 1 << 21);
}

TEST_F(AutomaticScale, TheResultIsReadAtTheScaleThatItWasSentWith) {
  one_step(0x1p27);
  const OperationId id = script.submit({1, 0, 0, 0});
  const std::vector<Sent> sent = script.run();
  script.answer(sent.at(0), {3 << 22, 0, 0, 0});
  EXPECT_EQ(script.tensors.data.at(id)[0], 3);
}

TEST_F(AutomaticScale, AnOperationWaitsForTheOneBeforeOfItsKind) {
  script.submit({1, 0, 0, 0});
  script.submit({1, 0, 0, 0});
  const std::vector<Sent> first = script.run();
  ASSERT_EQ(first.size(), 1u) << "the second one's scale depends on the first one's sum";
  script.answer_with_magnitude(first[0], 1U << 28);
  const std::vector<Sent> second = script.run();
  ASSERT_EQ(second.size(), 1u);
  EXPECT_EQ(first_value(second[0]), 1 << 21);
}

TEST_F(AutomaticScale, AnotherKindDoesNotWait) {
  script.submit({1, 0, 0, 0});
  script.submit({1, 0, 0});
  EXPECT_EQ(script.run().size(), 2u);
}

TEST_F(AutomaticScale, TimeSpentWaitingIsNoWantOfProgress) {
  const OperationSpec patient{.count = 4, .timeout = std::chrono::seconds(3)};
  for (int i = 0; i < 2; ++i) {
    const auto id = script.worker.submit(script.now, patient);
    script.tensors.data[*id] = {1, 0, 0, 0};
  }
  const std::vector<Sent> first = script.run();
  script.advance(std::chrono::milliseconds(2900));
  script.answer_with_magnitude(first.at(0), 1);
  script.run();
  script.advance(std::chrono::milliseconds(2900));
  script.run();
  while (const auto event = script.worker.poll_event()) {
    EXPECT_NE(event->kind, EventKind::kFailed);
  }
}

TEST_F(AutomaticScale, AFragmentInFloatModeLowersIt) {
  one_step(0x1p29);
  EXPECT_EQ(one_float_step({1, 0, 0, 0}), 1 << 20) << "something overflowed and cancelled out";
  EXPECT_EQ(one_float_step({0x1p20F, 0, 0, 0}), 1 << 18) << "3 workers times 2^38 at this scale";
  EXPECT_EQ(one_step(1), 1 << 7);
}

TEST_F(AutomaticScale, NanAndInfAloneDoNot) {
  one_step(0x1p29);
  one_float_step({kNan, 0x1p-1F, 0, 0});
  EXPECT_EQ(one_step(1), 1 << 20);
}

TEST(ProactiveOverflow, KeepsFromTheSwitchesWhatMightOverflowAndCountsWhereItDidNot) {
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
    const std::vector<Sent> sent = script.run();
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
