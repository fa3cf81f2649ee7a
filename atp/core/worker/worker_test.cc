#include "atp/core/worker/worker.h"

#include <gtest/gtest.h>

#include "atp/core/worker/worker_script_test.h"

namespace atp {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

std::vector<Sent> gradients(const std::vector<Sent>& sent) {
  std::vector<Sent> found;
  for (const Sent& packet : sent) {
    if (packet.view().type() == PacketType::kGradient) found.push_back(packet);
  }
  return found;
}

std::vector<Sent> joins(const std::vector<Sent>& sent) {
  std::vector<Sent> found;
  for (const Sent& packet : sent) {
    if (packet.view().type() == PacketType::kJoin) found.push_back(packet);
  }
  return found;
}

TEST(WorkerJoin, AsksThroughTheTreeAndStraightAtOnceAndBacksOff) {
  WorkerScript s;
  s.worker.start(s.now);
  const auto first = joins(s.run());
  ASSERT_EQ(first.size(), 2u);
  EXPECT_EQ(first[0].to, kTestSwitch);
  EXPECT_FALSE(first[0].view().has(ATP_FLAG_DIRECT));
  EXPECT_EQ(first[1].to, kTestServer);
  EXPECT_TRUE(first[1].view().has(ATP_FLAG_DIRECT));
  const auto body = Join::read(first[0].view().body);
  ASSERT_TRUE(body.has_value());
  EXPECT_EQ(body->remaining.size(), 2u);
  EXPECT_EQ(body->world_size, 3);
  EXPECT_EQ(first[0].view().ranks, RankSet::of(1));

  std::vector<Duration> gaps;
  for (int i = 0; i < 6; ++i) {
    const Instant before = s.now;
    EXPECT_EQ(joins(s.run_to_timer()).size(), 2u);
    gaps.push_back(s.now - before);
  }
  EXPECT_EQ(gaps,
            (std::vector<Duration>{milliseconds(50), milliseconds(100), milliseconds(200),
                                   milliseconds(400), milliseconds(800), milliseconds(1000)}));
}

TEST(WorkerJoin, AStraightAnswerAloneDoesNotStartAnAttachedWorker) {
  WorkerScript s;
  s.worker.start(s.now);
  s.run();
  s.receive_ack(s.ack(), kTestServer);
  EXPECT_FALSE(s.worker.joined());
  s.receive_ack(s.ack(), kTestSwitch);
  EXPECT_TRUE(s.worker.joined());
}

TEST(WorkerJoin, OnceAMemberItNamesTheServersLifeThatMadeItOne) {
  WorkerScript s;
  s.worker.start(s.now);
  for (const Sent& join : joins(s.run())) {
    EXPECT_EQ(Join::read(join.view().body)->server_boot_id, 0u);
  }
  s.receive_ack(s.ack(), kTestServer);
  s.advance(seconds(1));
  for (const Sent& join : joins(s.run())) {
    EXPECT_EQ(Join::read(join.view().body)->server_boot_id, 0u) << "straight alone is not enough";
  }
  s.receive_ack(s.ack(), kTestSwitch);
  s.advance(seconds(1));
  const auto refreshed = joins(s.run());
  EXPECT_EQ(refreshed.size(), 2u);
  for (const Sent& join : refreshed) {
    EXPECT_EQ(Join::read(join.view().body)->server_boot_id, s.ack().server_boot_id);
  }
}

TEST(WorkerJoin, StartsDetachedWhenTheTreeIsSilentForALease) {
  WorkerScript s;
  s.worker.start(s.now);
  s.run();
  s.receive_ack(s.ack(), kTestServer);
  s.advance(seconds(5));
  const auto sent = joins(s.run());
  EXPECT_FALSE(s.worker.attached());
  s.run();
  JoinAck ack = s.ack();
  ack.detached = true;
  ack.detachments = 1;
  s.receive_ack(ack, kTestServer);
  EXPECT_TRUE(s.worker.joined());
}

TEST(WorkerJoin, AnswersThatAreNotItsOwnAreDropped) {
  struct Case {
    const char* name;
    void (*spoil)(JoinAck&);
    WorkerCounter counter;
  };
  const Case cases[] = {
      {"another nonce", [](JoinAck& a) { a.nonce = 1; }, WorkerCounter::kDropWrongNonce},
      {"another world size", [](JoinAck& a) { a.world_size = 4; }, WorkerCounter::kDropBadBody},
      {"a K above ours", [](JoinAck& a) { a.value_count = 5; }, WorkerCounter::kDropBadBody},
      {"another stream range", [](JoinAck& a) { a.first_stream = 1; }, WorkerCounter::kDropBadBody},
      {"a window of none", [](JoinAck& a) { a.wmax = 0; }, WorkerCounter::kDropBadBody},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    WorkerScript s;
    s.worker.start(s.now);
    s.run();
    JoinAck ack = s.ack();
    c.spoil(ack);
    s.receive_ack(ack, kTestSwitch);
    EXPECT_FALSE(s.worker.joined());
    EXPECT_EQ(s.worker.counters()[c.counter], 1u);
  }
}

TEST(WorkerJoin, TimesOutAndNamesWhoIsMissing) {
  WorkerScript s;
  s.worker.start(s.now);
  s.run();
  StatusMessage status{.code = StatusCode::kWaitingFor};
  status.about = RankSet::of(2);
  while (s.now < Instant{seconds(1)} + seconds(30)) {
    s.receive_status(status, kTestSwitch);
    s.run_to_timer();
  }
  const auto event = s.worker.poll_event();
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->kind, EventKind::kFailed);
  EXPECT_EQ(event->failure.code, FailureCode::kJoinTimeout);
  EXPECT_EQ(event->failure.ranks, RankSet::of(2));
}

TEST(WorkerJoin, ARefusalWithItsNonceEndsIt) {
  for (const StatusCode code : {StatusCode::kRankTaken, StatusCode::kRefused}) {
    WorkerScript s;
    s.worker.start(s.now);
    s.run();
    StatusMessage status{.code = code};
    status.nonce = 3;
    s.receive_status(status, kTestSwitch);
    EXPECT_FALSE(s.worker.poll_event().has_value()) << "the twin's refusal is not ours";
    status.nonce = WorkerScript::kNonce;
    s.receive_status(status, kTestSwitch);
    const auto event = s.worker.poll_event();
    ASSERT_TRUE(event.has_value());
    EXPECT_EQ(event->failure.code,
              code == StatusCode::kRankTaken ? FailureCode::kRankTaken : FailureCode::kRefused);
  }
}

TEST(WorkerJoin, ARefusalIsPassedOnWithWhatWasExpectedAndFoundAndWhoSaysSo) {
  WorkerScript s;
  s.worker.start(s.now);
  s.run();
  s.receive_status(StatusMessage::refused({RefusalReason::kWorldSize, 4, 3, RankSet::of(0)},
                                          RankSet::of(1), WorkerScript::kNonce),
                   kTestServer);
  const auto event = s.worker.poll_event();
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->failure, (Failure{.code = FailureCode::kRefused,
                                     .reason = RefusalReason::kWorldSize,
                                     .expected = 4,
                                     .found = 3,
                                     .ranks = RankSet::of(1),
                                     .other = RankSet::of(0),
                                     .endpoint = kTestServer}));
}

TEST(WorkerOperation, SplitsATensorPadsTheEndAndWritesTheSums) {
  WorkerScript s;
  s.join();
  const OperationId id = s.submit({1, -1, 0.5F, 0.25F, 3});
  const auto sent = gradients(s.run());
  ASSERT_EQ(sent.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(sent[i].to, kTestSwitch);
    EXPECT_EQ(sent[i].view().header.sequence, i);
    EXPECT_EQ(sent[i].view().header.flags, 0);
    EXPECT_EQ(sent[i].view().header.value_count, WorkerScript::kValues);
    EXPECT_EQ(sent[i].view().ranks, RankSet::of(1));
  }
  EXPECT_EQ(sent[0].view().header.magnitude, 100u);
  EXPECT_EQ(atp_load32(sent[1].view().body.data()), 300u);
  EXPECT_EQ(atp_load32(sent[1].view().body.data() + 4), 0u) << "padding";

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

TEST(WorkerOperation, NothingIsSubmittedBeforeJoiningOrBeyondTheLimit) {
  WorkerScript s;
  EXPECT_FALSE(s.worker.submit(s.now, {.count = 1}).has_value());
  s.join();
  for (int i = 0; i < 64; ++i) s.submit({});
  EXPECT_FALSE(s.worker.submit(s.now, {.count = 1}).has_value());
  s.worker.poll_event();
  EXPECT_TRUE(s.worker.submit(s.now, {.count = 1}).has_value());
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
  EXPECT_EQ(copy, s.worker) << "the same packet at the same time";
}

TEST(WorkerOrder, ASequenceWaitsForEverythingAWindowBefore) {
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

TEST(WorkerOrder, TheNextIndexIsUsedOneWindowLater) {
  WorkerScript s;
  s.join();
  s.submit(std::vector<float>(4 * 6, 1.0F));
  const auto sent = gradients(s.run());
  for (std::size_t i = 0; i < 4; ++i) s.answer(sent[i], {0, 0, 0, 0}, kTestSwitch, 0, 1000 + i);
  const auto later = gradients(s.run());
  ASSERT_EQ(later.size(), 2u);
  EXPECT_EQ(later[0].view().header.aggregator_index, 1000u);
  EXPECT_EQ(later[1].view().header.aggregator_index, 1001u);
}

TEST(WorkerLadder, TheTimerClimbsPlainResendDirect) {
  WorkerScript s;
  s.join();
  s.submit({1, 2, 3, 4});
  ASSERT_EQ(gradients(s.run()).size(), 1u);
  const std::uint8_t expected[] = {0, ATP_FLAG_RESEND, ATP_FLAG_RESEND | ATP_FLAG_DIRECT,
                                   ATP_FLAG_RESEND | ATP_FLAG_DIRECT};
  for (const std::uint8_t flags : expected) {
    std::vector<Sent> repeats;
    while (repeats.empty()) repeats = gradients(s.run_to_timer());
    ASSERT_EQ(repeats.size(), 1u);
    EXPECT_EQ(repeats[0].view().header.flags, flags);
    EXPECT_EQ(repeats[0].to, (flags & ATP_FLAG_DIRECT) != 0 ? kTestServer : kTestSwitch);
  }
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
    s.nack(sent.at(0), c.nack);
    const auto repeats = gradients(s.take());
    ASSERT_EQ(repeats.size(), 1u);
    EXPECT_EQ(repeats[0].view().header.flags, c.repeat);
    EXPECT_EQ(repeats[0].to, c.to);
    EXPECT_TRUE(s.worker.attached()) << "a NACK never counts for detaching";
  }
}

TEST(WorkerLadder, InFloatModeEveryRepeatIsFloatAndDirect) {
  WorkerScript s;
  s.join();
  const OperationId id = s.submit({1.5F, 2, 3, 4});
  const auto sent = gradients(s.run());
  s.nack(sent.at(0), ATP_FLAG_FLOAT);
  s.take();
  std::vector<Sent> repeats;
  while (repeats.empty()) repeats = gradients(s.run_to_timer());
  EXPECT_EQ(repeats[0].view().header.flags, ATP_FLAG_FLOAT | ATP_FLAG_DIRECT);
  EXPECT_EQ(atp_load32(repeats[0].view().body.data()), 0x3fc00000u);
  const auto inf = static_cast<std::int32_t>(0x7f800000);
  s.answer(sent[0], {0x40000000, inf, 0, 0}, kTestServer, ATP_FLAG_FLOAT);
  EXPECT_EQ(s.tensors.data[id][0], 2.0F);
  EXPECT_EQ(s.tensors.data[id][1], std::numeric_limits<float>::infinity());
}

TEST(WorkerLadder, ThreeLaterAnswersRepeatTheOldestOnceItIsLateEnough) {
  WorkerScript s;
  s.join();
  s.submit(std::vector<float>(16, 1.0F));
  const auto sent = gradients(s.run());
  s.advance(milliseconds(1));
  for (std::size_t i : {1u, 2u, 3u}) s.answer(sent[i], {0, 0, 0, 0});
  EXPECT_TRUE(gradients(s.take()).empty()) << "mere reordering";

  WorkerScript late;
  late.join();
  late.submit(std::vector<float>(16, 1.0F));
  const auto slow = gradients(late.run());
  late.advance(milliseconds(20));
  for (std::size_t i : {1u, 2u, 3u}) late.answer(slow[i], {0, 0, 0, 0});
  const auto repeats = gradients(late.take());
  ASSERT_EQ(repeats.size(), 1u);
  EXPECT_EQ(repeats[0].view().header.sequence, 0u);
  EXPECT_EQ(repeats[0].view().header.flags, 0);
}

TEST(WorkerLadder, AnAnsweredTimeOutIsFollowedByTheOthersTwoByTwo) {
  WorkerScript s;
  s.join();
  s.submit(std::vector<float>(16, 1.0F));
  const auto sent = gradients(s.run());
  std::vector<Sent> repeats;
  while (repeats.empty()) repeats = gradients(s.run_to_timer());
  EXPECT_EQ(repeats.at(0).view().header.sequence, 0u);
  s.answer(sent[0], {0, 0, 0, 0});
  const auto followers = gradients(s.run());
  ASSERT_EQ(followers.size(), 2u);
  EXPECT_EQ(followers[0].view().header.sequence, 1u);
  EXPECT_EQ(followers[1].view().header.sequence, 2u);
  s.answer(sent[3], {0, 0, 0, 0});  // never repeated: nothing was lost, the peer was late
  s.answer(sent[1], {0, 0, 0, 0});
  EXPECT_TRUE(gradients(s.run()).empty());
}

// Fires timers until the worker detaches or ten direct repeats were sent. A switch that is alive
// lets JOIN_ACKs through, and the server says whom it waits for.
int direct_repeats_until_detached(WorkerScript& s, bool switch_is_alive) {
  int direct = 0;
  while (s.worker.attached() && direct < 10) {
    for (const Sent& packet : gradients(s.run_to_timer())) {
      if (!packet.view().has(ATP_FLAG_DIRECT) || !packet.view().has(ATP_FLAG_RESEND)) continue;
      ++direct;
      if (switch_is_alive) {
        s.receive_status({.code = StatusCode::kWaitingFor, .about = RankSet::of(0)}, kTestServer);
      }
    }
    s.receive_ack(s.ack(), kTestServer);
    if (switch_is_alive) s.receive_ack(s.ack(), kTestSwitch);
  }
  return direct;
}

TEST(WorkerDetaching, ThreeDirectRepeatsByTimerDetach) {
  WorkerScript s;
  s.join();
  s.submit({1, 2, 3, 4});
  s.run();
  EXPECT_EQ(direct_repeats_until_detached(s, false), 3);
  EXPECT_FALSE(s.worker.attached());
  bool said_straight = false;
  for (const Sent& join : joins(s.run())) {
    const auto body = Join::read(join.view().body);
    EXPECT_TRUE(body->detached);
    EXPECT_EQ(body->detachments, 1u);
    said_straight |= join.to == kTestServer;
  }
  EXPECT_TRUE(said_straight);
}

TEST(WorkerDetaching, ALatePeerIsNotADeadSwitch) {
  WorkerScript s;  // model-check C5
  s.join();
  s.submit({1, 2, 3, 4});
  s.run();
  EXPECT_EQ(direct_repeats_until_detached(s, true), 10);
  EXPECT_TRUE(s.worker.attached());
}

TEST(WorkerDetaching, ALeaseWithoutAnAnswerThroughTheTreeDetaches) {
  WorkerScript s;
  s.join();
  const Instant joined = s.now;
  while (s.worker.attached()) {
    s.run_to_timer();
    s.receive_ack(s.ack(), kTestServer);
  }
  EXPECT_EQ(s.now, joined + Timing{}.lease);
}

TEST(WorkerDetaching, ARefusalOnTheWayThroughTheTreeIsTheTreesFault) {
  WorkerScript s;
  s.join();
  s.receive_status({.code = StatusCode::kRefused, .nonce = s.ack().nonce, .about = RankSet::of(1)},
                   kTestSwitch);
  EXPECT_TRUE(s.worker.joined());
  EXPECT_FALSE(s.worker.attached());
}

TEST(WorkerDetaching, AnIcmpErrorFromTheParentDetachesAtOnceAndResendsDirect) {
  WorkerScript s;
  s.join();
  s.submit(std::vector<float>(16, 1.0F));
  s.run();
  s.worker.handle_unreachable(s.now, kTestSwitch, s.tensors, s.out);
  EXPECT_FALSE(s.worker.attached());
  const auto sent = gradients(s.run());
  ASSERT_EQ(sent.size(), 2u) << "paced: two, then two for each answer";
  for (const Sent& packet : sent) {
    EXPECT_EQ(packet.to, kTestServer);
    EXPECT_EQ(packet.view().header.flags, ATP_FLAG_DIRECT);
  }
  s.answer(sent[0], {0, 0, 0, 0}, kTestServer);
  EXPECT_EQ(gradients(s.run()).size(), 2u);
}

TEST(WorkerDetaching, OnlyTheTreesOwnAnswerBringsItBack) {
  WorkerScript s;
  s.join();
  s.submit({1, 2, 3, 4});
  s.run();
  s.worker.handle_unreachable(s.now, kTestSwitch, s.tensors, s.out);
  s.run();
  JoinAck ack = s.ack();
  ack.detached = true;
  ack.detachments = 1;
  s.receive_ack(ack, kTestServer);
  EXPECT_FALSE(s.worker.attached()) << "model-check F2";
  ack.detached = false;
  s.receive_ack(ack, kTestSwitch);
  EXPECT_FALSE(s.worker.attached()) << "an answer to an older JOIN";
  ack.detached = true;
  s.receive_ack(ack, kTestSwitch);
  EXPECT_TRUE(s.worker.attached());
  const auto sent = s.run();
  ASSERT_FALSE(joins(sent).empty());
  EXPECT_FALSE(Join::read(joins(sent)[0].view().body)->detached);
  const auto again = gradients(sent);
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].to, kTestSwitch);
  EXPECT_EQ(again[0].view().header.flags, 0) << "step 1 of the ladder";
}

TEST(WorkerDetaching, TheSecondReturnWaits) {
  WorkerScript s;
  s.join();
  JoinAck ack = s.ack();
  ack.detached = true;
  for (std::uint32_t times = 1; times <= 2; ++times) {
    s.worker.handle_unreachable(s.now, kTestSwitch, s.tensors, s.out);
    s.run();
    ack.detachments = times;
    s.receive_ack(ack, kTestSwitch);
    EXPECT_EQ(s.worker.attached(), times == 1);
  }
  s.advance(milliseconds(300));
  s.receive_ack(ack, kTestSwitch);
  EXPECT_TRUE(s.worker.attached());
}

TEST(WorkerTables, AnUnknownJobIsJoinedAgainAndThenEverythingGoesAgain) {
  WorkerScript s;
  s.join();
  s.submit({1, 2, 3, 4});
  s.run();
  s.advance(milliseconds(20));
  s.receive_status({.code = StatusCode::kUnknownJob, .about = RankSet::of(1)}, kTestSwitch);
  EXPECT_FALSE(joins(s.run()).empty());
  s.receive_ack(s.ack(), kTestSwitch);
  const auto again = gradients(s.run());
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].view().header.flags, 0);
  EXPECT_EQ(again[0].to, kTestSwitch);
}

TEST(WorkerFailure, EveryPendingOperationFailsWithTheCauseAndLaterOnesAreRefused) {
  struct Case {
    const char* name;
    void (*cause)(WorkerScript&, const Sent&);
    FailureCode code;
    RankSet ranks;
  };
  const Case cases[] = {
      {"lease ended",
       [](WorkerScript& s, const Sent&) {
         s.receive_status({.code = StatusCode::kLeaseEnded, .about = RankSet::of(2)}, kTestSwitch);
       },
       FailureCode::kRankLost, RankSet::of(2)},
      {"left",
       [](WorkerScript& s, const Sent&) {
         s.receive_status({.code = StatusCode::kLeft, .about = RankSet::of(0)}, kTestSwitch);
       },
       FailureCode::kRankLeft, RankSet::of(0)},
      {"mismatch, ours named first",
       [](WorkerScript& s, const Sent& g) {
         s.receive_status({.code = StatusCode::kOperationMismatch,
                           .about = RankSet::of(1),
                           .other = RankSet::of(0)},
                          kTestSwitch, g.view().header.sequence, g.view().header.operation);
       },
       FailureCode::kOperationMismatch, RankSet::of(1)},
      {"mismatch, theirs named first",
       [](WorkerScript& s, const Sent& g) {
         s.receive_status({.code = StatusCode::kOperationMismatch,
                           .about = RankSet::of(0),
                           .other = RankSet::of(1)},
                          kTestSwitch, g.view().header.sequence, g.view().header.operation + 1);
       },
       FailureCode::kOperationMismatch, RankSet::of(1)},
      {"server restarted, says the answer to its JOIN",
       [](WorkerScript& s, const Sent&) {
         s.receive_status({.code = StatusCode::kServerRestarted, .nonce = 3}, kTestSwitch);
         EXPECT_TRUE(s.worker.joined()) << "that is the answer to a twin";
         s.receive_status({.code = StatusCode::kServerRestarted, .nonce = WorkerScript::kNonce},
                          kTestSwitch);
       },
       FailureCode::kServerRestarted, RankSet{}},
      {"lease ended, says the answer to its JOIN",
       [](WorkerScript& s, const Sent&) {
         StatusMessage status{.code = StatusCode::kLeaseEnded, .nonce = 3, .about = RankSet::of(1)};
         s.receive_status(status, kTestSwitch);
         EXPECT_TRUE(s.worker.joined()) << "that is the answer to a twin";
         status.nonce = WorkerScript::kNonce;
         s.receive_status(status, kTestSwitch);
       },
       FailureCode::kRankLost, RankSet::of(1)},
      {"server restarted",
       [](WorkerScript& s, const Sent&) {
         JoinAck ack = s.ack();
         ack.server_boot_id = 6;
         s.receive_ack(ack, kTestServer);
       },
       FailureCode::kServerRestarted, RankSet{}},
      {"server silent",
       [](WorkerScript& s, const Sent&) {
         for (int i = 0; i < 200 && s.worker.joined(); ++i) s.run_to_timer();
       },
       FailureCode::kServerLost, RankSet{}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    WorkerScript s;
    s.join();
    s.submit({1, 2, 3, 4});
    s.submit({5});
    const auto sent = gradients(s.run());
    c.cause(s, sent.at(0));
    int failed = 0;
    while (const auto event = s.worker.poll_event()) {
      if (event->kind != EventKind::kFailed) continue;
      EXPECT_EQ(event->failure.code, c.code);
      EXPECT_EQ(event->failure.ranks, c.ranks);
      ++failed;
    }
    EXPECT_EQ(failed, 2);
    EXPECT_FALSE(s.worker.submit(s.now, {.count = 1}).has_value());
  }
}

TEST(WorkerFailure, AMismatchSaidAgainAfterTheFailureIsIgnored) {
  WorkerScript s;
  s.join();
  s.submit({1, 2, 3, 4});
  const Sent gradient = gradients(s.run()).at(0);
  const atp_header& h = gradient.view().header;
  const StatusMessage status{
      .code = StatusCode::kOperationMismatch, .about = RankSet::of(1), .other = RankSet::of(0)};
  for (int i = 0; i < 3; ++i) s.receive_status(status, kTestSwitch, h.sequence, h.operation);
  int failed = 0;
  while (const auto event = s.worker.poll_event()) failed += event->kind == EventKind::kFailed;
  EXPECT_EQ(failed, 1);
}

TEST(WorkerFailure, NoProgressFailsTheOperationAndNamesTheMissing) {
  WorkerScript s;
  s.join();
  s.submit({1, 2, 3, 4});
  s.run();
  const Instant begin = s.now;
  while (s.worker.joined()) {
    s.receive_status({.code = StatusCode::kWaitingFor, .about = RankSet::of(2)}, kTestSwitch);
    s.run_to_timer();
  }
  EXPECT_EQ(s.now - begin, seconds(30));
  std::optional<Event> event;
  while ((event = s.worker.poll_event()) && event->kind != EventKind::kFailed) {
  }
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->failure.code, FailureCode::kNoProgress);
  EXPECT_EQ(event->failure.ranks, RankSet::of(2));
}

TEST(WorkerLeave, IsRepeatedUntilAcknowledged) {
  WorkerScript s;
  s.join();
  s.worker.leave(s.now);
  for (int i = 0; i < 3; ++i) {
    const auto sent = s.run_to_timer();
    ASSERT_EQ(sent.size(), 1u);
    EXPECT_EQ(sent[0].view().type(), PacketType::kLeave);
    EXPECT_EQ(sent[0].to, kTestSwitch);
  }
  StatusMessage status{.code = StatusCode::kLeft};
  status.about = RankSet::of(1);
  status.nonce = WorkerScript::kNonce;
  s.receive_status(status, kTestSwitch);
  std::optional<Event> event;
  while ((event = s.worker.poll_event()) && event->kind != EventKind::kLeft) {
  }
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(s.worker.next_timeout(), kNever);
}

TEST(WorkerLeave, IsGivenUpAfterALease) {
  WorkerScript s;
  s.join();
  s.worker.leave(s.now);
  const Instant begin = s.now;
  bool straight = false;
  while (s.worker.next_timeout() != kNever) {
    for (const Sent& packet : s.run_to_timer()) straight |= packet.to == kTestServer;
  }
  EXPECT_EQ(s.now - begin, seconds(5));
  EXPECT_TRUE(straight) << "the tree may have died unnoticed";
}

TEST(WorkerLease, IsTheOneThatTheServerGrants) {
  JoinAck ack = WorkerScript().ack();
  ack.lease_ms = 1500;
  WorkerScript leaving;
  leaving.join(ack);
  leaving.worker.leave(leaving.now);
  const Instant left = leaving.now;
  int straight = 0;
  while (leaving.worker.next_timeout() != kNever) {
    for (const Sent& packet : leaving.run_to_timer()) {
      if (packet.to != kTestServer) continue;
      ++straight;
      EXPECT_GE(leaving.now - left, milliseconds(750)) << "only the later half goes straight too";
    }
  }
  EXPECT_EQ(leaving.now - left, milliseconds(1500));
  EXPECT_GT(straight, 0);

  WorkerScript silent;
  silent.join(ack);
  const Instant heard = silent.now;
  while (silent.worker.joined()) silent.run_to_timer();
  EXPECT_EQ(silent.now - heard, milliseconds(1500));
}

TEST(WorkerDrops, WhatDoesNotConcernItIsCountedByName) {
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
      {"of a sequence unsent", [](atp_header& h) { h.sequence = 40; }, kTestSwitch,
       WorkerCounter::kDropUnsentSequence},
      {"of another operation", [](atp_header& h) { ++h.operation; }, kTestSwitch,
       WorkerCounter::kDropWrongOperation},
      {"a GRADIENT", [](atp_header& h) { h.type = ATP_GRADIENT; }, kTestSwitch,
       WorkerCounter::kDropWrongDirection},
      {"of another version", [](atp_header& h) { h.version = 2; }, kTestSwitch,
       WorkerCounter::kDropUnknownVersion},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    WorkerScript s;
    s.join();
    const OperationId id = s.submit({1, 2, 3, 4});
    const Sent gradient = gradients(s.run()).at(0);
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

}  // namespace
}  // namespace atp
