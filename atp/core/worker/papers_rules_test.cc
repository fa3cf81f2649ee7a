#include <gtest/gtest.h>

#include "atp/core/worker/worker_script_test.h"

// What a worker does about losses by the paper's rules (docs/inside/protocol §5, *Loss*, 12 and
// 13).

namespace atp {
namespace {

constexpr std::uint8_t kResend = ATP_FLAG_RESEND;

std::vector<SentPacket> next_repeats(WorkerScript& s) {
  std::vector<SentPacket> repeats;
  while (repeats.empty()) repeats = gradients(s.run_to_timer());
  return repeats;
}

std::vector<std::uint64_t> repeated(WorkerScript& s) {
  std::vector<std::uint64_t> sequences;
  for (const SentPacket& repeat : gradients(s.take())) {
    sequences.push_back(repeat.view().header.sequence);
  }
  return sequences;
}

// One fragment is about to be sent.
struct PapersRepeats : testing::Test {
  PapersRepeats() : s(config()) {
    s.join();
    s.submit({1, 2, 3, 4});
  }
  static WorkerConfig config() {
    WorkerConfig config = WorkerScript::default_config();
    config.plain_repeats = false;
    return config;
  }

  WorkerScript s;
};

TEST_F(PapersRepeats, AreAllResendThroughTheTree) {
  ASSERT_EQ(gradients(s.run()).at(0).view().header.flags, 0);
  for (int repeat = 0; repeat < 4; ++repeat) {
    const auto repeats = next_repeats(s);
    ASSERT_EQ(repeats.size(), 1u);
    EXPECT_EQ(repeats[0].view().header.flags, kResend);
    EXPECT_EQ(repeats[0].to, kTestSwitch);
    // As long as both paths answer, a peer is late.
    s.receive_ack(s.ack(), kTestServer);
    s.receive_ack(s.ack(), kTestSwitch);
  }
  EXPECT_TRUE(s.worker.attached());
}

TEST_F(PapersRepeats, BypassSwitchesWhereTheServerAsksForThat) {
  const auto sent = gradients(s.run());
  s.nack(sent.at(0), ATP_FLAG_DIRECT);
  const auto repeats = gradients(s.take());
  ASSERT_EQ(repeats.size(), 1u);
  EXPECT_EQ(repeats[0].view().header.flags, kResend | ATP_FLAG_DIRECT);
}

TEST_F(PapersRepeats, DoNotBlameTheTreeForTheFirstTimeOut) {
  s.run();
  next_repeats(s);
  EXPECT_TRUE(joins(s.run()).empty());
  next_repeats(s);
  EXPECT_EQ(joins(s.run()).size(), 2u) << "by both paths, to find out";
}

// Eight fragments are in flight, from sequence 0 on.
struct WithoutTolerance : testing::Test {
  WithoutTolerance() : s(config()) {
    JoinAck wide = s.ack();
    wide.wmax = 8;
    s.join(wide);
    s.submit(std::vector<float>(8 * WorkerScript::kValues, 1.0F));
    sent = gradients(s.run());
  }
  static WorkerConfig config() {
    WorkerConfig config = WorkerScript::default_config();
    config.tolerance = false;
    return config;
  }
  void answer(std::initializer_list<std::size_t> sequences) {
    for (const std::size_t i : sequences) s.answer(sent.at(i), {0, 0, 0, 0});
  }

  WorkerScript s;
  std::vector<SentPacket> sent;
};

using Sequences = std::vector<std::uint64_t>;

TEST_F(WithoutTolerance, TheThirdAnswerInARowToAnotherFragmentRepeatsTheOldestAtOnceAndOnce) {
  answer({1, 3});
  EXPECT_EQ(repeated(s), Sequences{});
  answer({4});
  EXPECT_EQ(repeated(s), Sequences{0}) << "and not 2, which is missing as well";
  EXPECT_EQ(s.worker.counters()[WorkerCounter::kWindowCutsLoss], 1u);
  answer({5, 6, 7});
  EXPECT_EQ(repeated(s), Sequences{});
}

TEST_F(WithoutTolerance, AnAnswerToTheOldestBeginsTheRowAnew) {
  answer({1, 2, 0, 4, 5});
  EXPECT_EQ(repeated(s), Sequences{});
  answer({6});
  EXPECT_EQ(repeated(s), Sequences{3});
}

TEST_F(WithoutTolerance, ATimeOutRepairsTheTailAndNoProbe) {
  s.advance(std::chrono::milliseconds(1));
  answer({1, 2, 3});
  ASSERT_EQ(repeated(s), Sequences{0});
  answer({0, 4, 5, 6});
  EXPECT_EQ(next_repeats(s).at(0).view().header.sequence, 7u);
  EXPECT_EQ(s.worker.counters()[WorkerCounter::kTimeouts], 1u);
  EXPECT_EQ(s.worker.counters()[WorkerCounter::kProbes], 0u);
}

}  // namespace
}  // namespace atp
