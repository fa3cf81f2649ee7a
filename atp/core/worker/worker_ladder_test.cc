#include <gtest/gtest.h>

#include <bit>

#include "atp/core/worker/worker_script_test.h"

// How unanswered fragments are repeated (docs/inside/protocol §5, *Loss*).

namespace atp {
namespace {

using std::chrono::milliseconds;

// Before this a plain NACK is ignored, while no round trip is known.
constexpr Duration kTolerance = Timing{}.reorder_min;

TEST(WorkerLadder, TheTimerClimbsFromPlainToResendToDirectOnBothPaths) {
  WorkerScript s;
  s.join();
  s.submit({1, 2, 3, 4});
  ASSERT_EQ(gradients(s.run()).size(), 1u);
  constexpr std::uint8_t kDirect = ATP_FLAG_RESEND | ATP_FLAG_DIRECT;
  const std::pair<std::uint8_t, Endpoint> expected[] = {{0, kTestSwitch},
                                                        {ATP_FLAG_RESEND, kTestSwitch},
                                                        {kDirect, kTestServer},
                                                        {kDirect, kTestSwitch}};
  for (const auto& [flags, to] : expected) {
    std::vector<SentPacket> repeats;
    while (repeats.empty()) repeats = gradients(s.run_to_timer());
    ASSERT_EQ(repeats.size(), 1u);
    EXPECT_EQ(repeats[0].view().header.flags, flags);
    EXPECT_EQ(repeats[0].to, to);
    // A peer is late: nobody detaches.
    StatusMessage waiting;
    s.receive_status(waiting, kTestServer);
  }
}

TEST(WorkerLadder, TheBytesOfRepeatsAreCountedApartAndWithThoseOfAllGradients) {
  WorkerScript s;
  s.join();
  s.submit({1, 2, 3, 4});
  std::size_t first = 0;
  for (const SentPacket& sent : gradients(s.run())) first += sent.bytes.size();
  std::size_t again = 0;
  while (again < 3 * first) {
    for (const SentPacket& sent : gradients(s.run_to_timer())) again += sent.bytes.size();
  }
  EXPECT_EQ(s.worker.counters()[WorkerCounter::kRepeatBytesSent], again);
  EXPECT_EQ(s.worker.counters()[WorkerCounter::kGradientBytesSent], first + again);
}

TEST(WorkerLadder, AFragmentThatTheServerAskedForBeforeItWasSentIsSentAsResend) {
  WorkerScript script;
  script.join();
  script.submit(std::vector<float>(6 * WorkerScript::kValues, 1));
  const std::vector<SentPacket> first = script.run();
  ASSERT_EQ(first.size(), 4u) << "Wmax";
  SentPacket unsent = first[0];
  atp_store64(unsent.bytes.data() + ATP_AT_SEQUENCE, 4);
  script.nack(unsent, 0);
  EXPECT_TRUE(script.take().empty());
  for (const SentPacket& gradient : first) script.answer(gradient, {});
  const std::vector<SentPacket> rest = script.run();
  ASSERT_EQ(rest.size(), 2u);
  EXPECT_TRUE(rest[0].view().has(ATP_FLAG_RESEND));
  EXPECT_FALSE(rest[1].view().has(ATP_FLAG_RESEND)) << "the server has not asked for it";
}

TEST(WorkerLadder, ANackTakesTheNextStepAndItsFlagsDecide) {
  struct Case {
    const char* name;
    std::uint8_t nack;
    std::uint8_t repeat;
    Endpoint to;
  };
  const Case cases[] = {
      {"plain", 0, 0, kTestSwitch},
      {"direct", ATP_FLAG_DIRECT, ATP_FLAG_RESEND | ATP_FLAG_DIRECT, kTestServer},
      {"float", ATP_FLAG_FLOAT, ATP_FLAG_FLOAT | ATP_FLAG_DIRECT, kTestServer},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    WorkerScript s;
    s.join();
    s.submit({1, 2, 3, 4});
    const auto sent = gradients(s.run());
    s.advance(kTolerance);
    s.nack(sent.at(0), c.nack);
    const auto repeats = gradients(s.take());
    ASSERT_EQ(repeats.size(), 1u);
    EXPECT_EQ(repeats[0].view().header.flags, c.repeat);
    EXPECT_EQ(repeats[0].to, c.to);
    EXPECT_TRUE(s.worker.attached()) << "a NACK never counts for detaching";
  }
}

// The server has seen nothing of the fragment, so it does not know its operation.
TEST(WorkerLadder, ANackThatNamesNoOperationMatchesAny) {
  WorkerScript s;
  s.join();
  s.submit({1, 2, 3, 4});
  SentPacket asked = gradients(s.run()).at(0);
  atp_store32(asked.bytes.data() + ATP_AT_OPERATION, 12345);
  s.advance(kTolerance);
  s.nack(asked, 0);
  EXPECT_TRUE(gradients(s.take()).empty()) << "a NACK for another operation";
  atp_store32(asked.bytes.data() + ATP_AT_OPERATION, 0);
  s.nack(asked, 0);
  EXPECT_EQ(gradients(s.take()).size(), 1u);
}

TEST(WorkerLadder, InFloatModeEveryRepeatIsFloatAndDirect) {
  WorkerScript s;
  s.join();
  const OperationId id = s.submit({1.5F, 2, 3, 4});
  const auto sent = gradients(s.run());
  s.nack(sent.at(0), ATP_FLAG_FLOAT);
  s.take();
  std::vector<SentPacket> repeats;
  while (repeats.empty()) repeats = gradients(s.run_to_timer());
  EXPECT_EQ(repeats[0].view().header.flags, ATP_FLAG_FLOAT | ATP_FLAG_DIRECT);
  EXPECT_EQ(atp_load32(repeats[0].view().body.data()), 0x3fc00000u);
  const auto inf = static_cast<std::int32_t>(0x7f800000);
  s.answer(sent[0], {0x40000000, inf, 0, 0}, kTestServer, ATP_FLAG_FLOAT);
  EXPECT_EQ(s.tensors.data[id][0], 2.0F);
  EXPECT_EQ(s.tensors.data[id][1], std::numeric_limits<float>::infinity());
}

// The server sums floats without dividing; the worker divides once.
TEST(WorkerLadder, TheAverageOfASumOfFloatsIsDividedByTheWorldSize) {
  WorkerScript s;
  s.join();
  const OperationId id = s.submit({1.5F, 2, 3, 4}, Reduction::kAverage);
  const auto sent = gradients(s.run());
  s.nack(sent.at(0), ATP_FLAG_FLOAT);
  const auto sum = [](float value) { return std::bit_cast<std::int32_t>(value); };
  s.answer(sent[0], {sum(6.0F), sum(1.0F), sum(-0x1p100F), 0}, kTestServer, ATP_FLAG_FLOAT);
  EXPECT_EQ(s.tensors.data[id], (std::vector<float>{2.0F, 1.0F / 3, -0x1p100F / 3, 0}));
}

// Gives the worker a round-trip sample.
void answer_one_after_a_millisecond(WorkerScript& s) {
  s.submit({1, 2, 3, 4});
  const SentPacket sent = gradients(s.run()).at(0);
  s.advance(milliseconds(1));
  s.answer(sent, {0, 0, 0, 0});
  s.take();
}

// Sends four fragments and answers all but the first after this time; returns all four.
std::vector<SentPacket> answer_all_but_the_first(WorkerScript& s, Duration after) {
  s.submit(std::vector<float>(16, 1.0F));
  std::vector<SentPacket> sent = gradients(s.run());
  s.advance(after);
  for (const std::size_t i : {1u, 2u, 3u}) s.answer(sent.at(i), {0, 0, 0, 0});
  return sent;
}

TEST(WorkerLadder, ThreeLaterAnswersRepeatTheOldestOnceItIsLateEnough) {
  WorkerScript s;
  s.join();
  answer_one_after_a_millisecond(s);
  answer_all_but_the_first(s, milliseconds(1));
  EXPECT_TRUE(gradients(s.take()).empty()) << "mere reordering";

  WorkerScript late;
  late.join();
  answer_one_after_a_millisecond(late);
  answer_all_but_the_first(late, milliseconds(20));
  const auto repeats = gradients(late.take());
  ASSERT_EQ(repeats.size(), 1u);
  EXPECT_EQ(repeats[0].view().header.sequence, 1u);
  EXPECT_EQ(repeats[0].view().header.flags, 0);
}

// No further answer arrives that would trigger the repeat.
TEST(WorkerLadder, AnOvertakenFragmentIsRepeatedOnceTheClockShowsThatItIsLate) {
  WorkerScript s;
  s.join();
  answer_one_after_a_millisecond(s);
  answer_all_but_the_first(s, milliseconds(1));
  EXPECT_TRUE(gradients(s.run()).empty()) << "mere reordering";
  const Instant before = s.now;
  const auto repeats = gradients(s.run_to_timer());
  ASSERT_EQ(repeats.size(), 1u);
  EXPECT_EQ(repeats[0].view().header.sequence, 1u);
  EXPECT_LE(s.now - before, milliseconds(3));
  EXPECT_EQ(s.worker.counters()[WorkerCounter::kTimeouts], 0u);
}

// If no loss was seen, a peer is late.
TEST(WorkerLadder, ATailIsNotProbedIfNoLossWasSeen) {
  WorkerScript s;
  s.join();
  answer_one_after_a_millisecond(s);
  s.submit({1, 2, 3, 4});
  s.run();
  std::vector<SentPacket> repeats;
  while (repeats.empty()) repeats = gradients(s.run_to_timer());
  EXPECT_EQ(s.worker.counters()[WorkerCounter::kTimeouts], 1u);
  EXPECT_EQ(s.worker.counters()[WorkerCounter::kProbes], 0u);
}

// Nothing follows the last packets of an operation that could show their loss.
TEST(WorkerLadder, TheTailIsProbedTwiceAfterAFewRoundTripsWithoutClimbingTheLadder) {
  WorkerScript s;
  s.join();
  answer_one_after_a_millisecond(s);
  const auto lossy = answer_all_but_the_first(s, milliseconds(1));
  ASSERT_EQ(gradients(s.run_to_timer()).size(), 1u);
  s.answer(lossy[0], {0, 0, 0, 0});
  s.submit({1, 2, 3, 4});
  s.run();
  const Instant begun = s.now;
  for (int probe = 0; probe < 2; ++probe) {
    std::vector<SentPacket> repeats;
    while (repeats.empty()) repeats = gradients(s.run_to_timer());
    EXPECT_EQ(repeats.at(0).view().header.flags, 0) << "plain";
  }
  EXPECT_LE(s.now - begun, milliseconds(18));
  EXPECT_EQ(s.worker.counters()[WorkerCounter::kProbes], 2u);
  EXPECT_EQ(s.worker.counters()[WorkerCounter::kTimeouts], 0u);
  std::vector<SentPacket> repeats;
  while (repeats.empty()) repeats = gradients(s.run_to_timer());
  EXPECT_EQ(s.worker.counters()[WorkerCounter::kTimeouts], 1u) << "time-outs follow";
  EXPECT_TRUE(s.worker.attached());
}

TEST(WorkerLadder, AnAnsweredTimeOutIsFollowedByTheOthersTwoByTwo) {
  WorkerScript s;
  s.join();
  s.submit(std::vector<float>(16, 1.0F));
  const auto sent = gradients(s.run());
  std::vector<SentPacket> repeats;
  while (repeats.empty()) repeats = gradients(s.run_to_timer());
  EXPECT_EQ(repeats.at(0).view().header.sequence, 0u);
  s.answer(sent[0], {0, 0, 0, 0});
  EXPECT_TRUE(gradients(s.run()).empty()) << "the timer may have been early";
  const auto followers = gradients(s.run_to_timer());
  ASSERT_EQ(followers.size(), 2u);
  EXPECT_EQ(followers[0].view().header.sequence, 1u);
  EXPECT_EQ(followers[1].view().header.sequence, 2u);
  s.answer(sent[3], {0, 0, 0, 0});  // it was never repeated: nothing was lost, the peer was late
  s.answer(sent[1], {0, 0, 0, 0});
  EXPECT_TRUE(gradients(s.run()).empty());
}

TEST(WorkerLadder, AnAnswerToAnUnrepeatedFragmentShowsThatTheTimerWasEarly) {
  WorkerScript s;
  s.join();
  s.submit(std::vector<float>(16, 1.0F));
  const auto sent = gradients(s.run());
  std::vector<SentPacket> repeats;
  while (repeats.empty()) repeats = gradients(s.run_to_timer());
  s.answer(sent[0], {0, 0, 0, 0});
  s.answer(sent[1], {0, 0, 0, 0});
  const auto next = gradients(s.run_to_timer());
  ASSERT_EQ(next.size(), 1u) << "only the next time-out repeats one";
  EXPECT_EQ(next[0].view().header.sequence, 2u);
  EXPECT_EQ(s.worker.counters()[WorkerCounter::kTimeouts], 2u);
}

TEST(WorkerLadder, OvertakenFragmentsAreRepeatedTwoPerAnswer) {
  WorkerScript s;
  JoinAck wide = s.ack();
  wide.wmax = 16;
  s.join(wide);
  answer_one_after_a_millisecond(s);
  s.submit(std::vector<float>(12 * WorkerScript::kValues, 1.0F));
  const auto sent = gradients(s.run());
  ASSERT_EQ(sent.size(), 12u);
  s.advance(milliseconds(20));
  std::vector<std::vector<std::uint64_t>> repeated;
  for (const std::size_t i : {6u, 7u, 8u, 9u, 10u}) {
    s.answer(sent[i], {0, 0, 0, 0});
    repeated.emplace_back();
    for (const SentPacket& repeat : gradients(s.take())) {
      repeated.back().push_back(repeat.view().header.sequence);
    }
  }
  EXPECT_EQ(repeated, (std::vector<std::vector<std::uint64_t>>{{}, {}, {1, 2}, {3, 4}, {5, 6}}));
  EXPECT_EQ(s.worker.counters()[WorkerCounter::kWindowCutsLoss], 1u)
      << "one cut for the whole train";
}

// When queues are full, the server asks for what is still on its way.
TEST(WorkerLadder, APlainNackIsIgnoredWhileTheFragmentMayBeOnItsWay) {
  struct Case {
    const char* name;
    Duration after;
    std::uint8_t nack;
    bool repeats;
  };
  const Case cases[] = {
      {"within a round trip and the tolerance", milliseconds(2), 0, false},
      {"after both", milliseconds(3), 0, true},
      {"DIRECT, at once", milliseconds(0), ATP_FLAG_DIRECT, true},
      {"FLOAT, at once", milliseconds(0), ATP_FLAG_FLOAT, true},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    WorkerScript s;
    s.join();
    answer_one_after_a_millisecond(s);
    s.submit({1, 2, 3, 4});
    const auto sent = gradients(s.run());
    s.advance(c.after);
    s.nack(sent.at(0), c.nack);
    EXPECT_EQ(gradients(s.take()).size(), c.repeats ? 1u : 0u);
    EXPECT_EQ(s.worker.counters()[WorkerCounter::kNacksEarly], c.repeats ? 0u : 1u);
    const bool is_loss = c.repeats && c.nack == 0;
    EXPECT_EQ(s.worker.counters()[WorkerCounter::kWindowCutsLoss], is_loss ? 1u : 0u);
    s.advance(milliseconds(3));
    s.nack(sent.at(0), 0);
    EXPECT_EQ(gradients(s.take()).size(), 1u) << "the next NACK comes late enough";
  }
}

}  // namespace
}  // namespace atp
