#include <gtest/gtest.h>

#include <vector>

#include "atp/core/worker/worker_script_test.h"

// Joining, and joining again when a node has lost its tables (docs/inside/protocol §2).

namespace atp {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(WorkerJoin, JoinsThroughTheTreeAndStraightAtOnceAndBacksOff) {
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
  Instant before = s.now;
  while (gaps.size() < 6) {
    const std::size_t sent = joins(s.run_to_timer()).size();
    if (sent == 0) continue;  // it asks who is there
    EXPECT_EQ(sent, 2u);
    gaps.push_back(s.now - before);
    before = s.now;
  }
  EXPECT_GE(gaps.back(), milliseconds(1000));
  EXPECT_LE(gaps.back(), milliseconds(1125)) << "with jitter";
  gaps.pop_back();
  EXPECT_EQ(gaps, (std::vector<Duration>{milliseconds(50), milliseconds(100), milliseconds(200),
                                         milliseconds(400), milliseconds(800)}));
}

// Otherwise a queue that is full when all ranks send theirs loses those of the same ranks each
// time, and the job never begins.
TEST(WorkerJoin, RanksThatBeganTogetherDoNotRepeatInStepForever) {
  const auto times_of = [](std::uint64_t seed) {
    WorkerConfig config = WorkerScript::default_config();
    config.seed = seed;
    WorkerScript s(config);
    s.worker.start(s.now);
    std::vector<Instant> times;
    while (times.size() < 12) {
      if (!joins(s.run_to_timer()).empty()) times.push_back(s.now);
    }
    return times;
  };
  const std::vector<Instant> one = times_of(1);
  const std::vector<Instant> other = times_of(2);
  constexpr std::size_t kLongWaits = 6;  // from here on
  for (std::size_t i = 0; i < one.size(); ++i) EXPECT_EQ(one[i] == other[i], i < kLongWaits) << i;
  EXPECT_EQ(one, times_of(1)) << "a seed says all";
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

TEST(WorkerJoin, AMemberNamesTheBootIdOfTheServerThatAcknowledgedIt) {
  WorkerScript s;
  s.worker.start(s.now);
  for (const SentPacket& join : joins(s.run())) {
    EXPECT_EQ(Join::read(join.view().body)->server_boot_id, 0u);
  }
  s.receive_ack(s.ack(), kTestServer);
  s.advance(seconds(1));
  for (const SentPacket& join : joins(s.run())) {
    EXPECT_EQ(Join::read(join.view().body)->server_boot_id, 0u) << "straight alone is not enough";
  }
  s.receive_ack(s.ack(), kTestSwitch);
  s.advance(seconds(1));
  const auto refreshed = joins(s.run());
  EXPECT_EQ(refreshed.size(), 2u);
  for (const SentPacket& join : refreshed) {
    EXPECT_EQ(Join::read(join.view().body)->server_boot_id, s.ack().server_boot_id);
  }
}

TEST(WorkerJoin, StartsDetachedWhenTheTreeIsSilentForALease) {
  WorkerScript s;
  s.worker.start(s.now);
  s.run();
  for (int second = 0; second < 5; ++second) {
    s.receive_ack(s.ack(), kTestServer);
    EXPECT_TRUE(s.worker.attached());
    s.advance(seconds(1));
    s.run();
  }
  EXPECT_FALSE(s.worker.attached());
  s.run();
  JoinAck ack = s.ack();
  ack.detached = true;
  ack.detachments = 1;
  s.receive_ack(ack, kTestServer);
  EXPECT_TRUE(s.worker.joined());
}

TEST(WorkerJoin, AnswersToOtherJoinsAreDropped) {
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
      {"a window of 0", [](JoinAck& a) { a.wmax = 0; }, WorkerCounter::kDropBadBody},
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

TEST(WorkerJoin, TimesOutAndNamesTheMissingRanks) {
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

TEST(WorkerTables, AnUnknownJobIsJoinedAgainAndThenEverythingIsRepeated) {
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

TEST(WorkerJoin, OnceAnsweredEachJoinIsRepeatedARefreshLater) {
  WorkerScript s;
  const Instant begin = s.now;
  s.join();
  for (int times = 1; times <= 3; ++times) {
    std::vector<SentPacket> sent;
    while (sent.empty()) sent = joins(s.run_to_timer());
    EXPECT_EQ(sent.size(), 2u) << "on both paths";
    EXPECT_EQ(s.now - begin, times * Timing{}.join_refresh);
    s.receive_ack(s.ack(), kTestServer);
    s.receive_ack(s.ack(), kTestSwitch);
  }
}

// Otherwise a job whose steps are in phase with its refreshes might lose all of these.
TEST(WorkerJoin, AnUnansweredRefreshIsRepeatedAsSoonAsTheFirstJoin) {
  WorkerScript s;
  const Instant begin = s.now;
  s.join();
  std::vector<std::int64_t> straight_ms;
  while (s.now - begin < seconds(4)) {
    for (const SentPacket& join : joins(s.run_to_timer())) {
      if (join.view().has(ATP_FLAG_DIRECT)) {
        straight_ms.push_back(
            std::chrono::duration_cast<std::chrono::milliseconds>(s.now - begin).count());
        if (straight_ms.size() == 4) s.receive_ack(s.ack(), kTestServer);
      } else {
        s.receive_ack(s.ack(), kTestSwitch);
      }
    }
  }
  EXPECT_EQ(straight_ms, (std::vector<std::int64_t>{1000, 1050, 1150, 1350, 2350, 2400, 2500, 2700,
                                                    3100, 3900}));
}

std::uint64_t proof_in(const SentPacket& sent) { return Join::read(sent.view().body)->proof; }

TEST(WorkerJoin, WhoIsAskedForAProofSendsItAtOnceOnThatPath) {
  WorkerScript s;
  s.worker.start(s.now);
  EXPECT_EQ(joins(s.run()).size(), 2u);
  s.receive_status(StatusMessage::prove(11, RankSet::of(1), WorkerScript::kNonce), kTestSwitch);
  auto sent = joins(s.run());
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].to, kTestSwitch);
  EXPECT_EQ(proof_in(sent[0]), 11u);
  s.receive_status(StatusMessage::prove(22, RankSet::of(1), WorkerScript::kNonce), kTestServer);
  sent = joins(s.run());
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].to, kTestServer);
  EXPECT_EQ(proof_in(sent[0]), 22u);
  s.receive_ack(s.ack(), kTestServer);
  s.receive_ack(s.ack(), kTestSwitch);
  sent = {};
  while (sent.empty()) sent = joins(s.run_to_timer());
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(s.now, Instant{seconds(1)} + Timing{}.join_refresh);
  EXPECT_EQ(proof_in(sent[0]), 11u) << "from now on in every JOIN of that path";
  EXPECT_EQ(proof_in(sent[1]), 22u);
}

TEST(WorkerJoin, WithoutASwitchBothPathsHaveOneProof) {
  WorkerConfig config = WorkerScript::default_config();
  config.route.clear();
  config.route.push_back(kTestServer);
  WorkerScript s(config);
  s.worker.start(s.now);
  s.run();
  s.receive_status(StatusMessage::prove(11, RankSet::of(1), WorkerScript::kNonce), kTestServer);
  EXPECT_EQ(joins(s.run()).size(), 1u);
  const auto sent = joins(s.run_to_timer());
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(proof_in(sent[0]), 11u);
  EXPECT_EQ(proof_in(sent[1]), 11u);
}

TEST(WorkerJoin, AQuestionForAProofWithAnotherNonceIsDropped) {
  WorkerScript s;
  s.worker.start(s.now);
  s.run();
  s.receive_status(StatusMessage::prove(11, RankSet::of(1), 1), kTestSwitch);
  EXPECT_TRUE(joins(s.run()).empty());
  EXPECT_EQ(s.worker.counters()[WorkerCounter::kDropWrongNonce], 1u);
}

// What answers a straight JOIN has DIRECT.
TEST(WorkerJoin, ACopyOfAQuestionForAProofIsIgnoredOnTheStraightPath) {
  WorkerScript s;
  s.worker.start(s.now);
  s.run();
  Outbox copy;
  ASSERT_TRUE(put_status(copy, s.head(PacketType::kStatus), RankSet::of(1),
                         StatusMessage::prove(11, RankSet::of(1), WorkerScript::kNonce)));
  copy.send_to(kTestServer);
  s.receive(copy, kTestServer);
  EXPECT_TRUE(joins(s.run()).empty());
  EXPECT_EQ(s.worker.counters()[WorkerCounter::kStatusIgnored], 1u);
}

// A route has at most eight nodes. Somebody who asks more often must not get a JOIN each time.
TEST(WorkerJoin, EightQuestionsInARowAreAnsweredAtOnce) {
  WorkerScript s;
  s.worker.start(s.now);
  s.run();
  std::size_t sent = 0;
  for (int i = 0; i < 20; ++i) {
    s.receive_status(StatusMessage::prove(11, RankSet::of(1), WorkerScript::kNonce), kTestSwitch);
    sent += joins(s.run()).size();
  }
  EXPECT_EQ(sent, Route::kMaxHops);
  EXPECT_FALSE(joins(s.run_to_timer()).empty()) << "it repeats its JOIN as if nobody had answered";
  s.receive_ack(s.ack(), kTestSwitch);
  s.receive_status(StatusMessage::prove(11, RankSet::of(1), WorkerScript::kNonce), kTestSwitch);
  EXPECT_TRUE(joins(s.run()).empty()) << "its last JOIN is answered";
}

TEST(WorkerJoin, ARankThatOnlyHearsQuestionsForProofsSaysThatItIsTakenForAnother) {
  for (const int questions : {1, 8}) {
    WorkerScript s;
    s.worker.start(s.now);
    s.run();
    for (int i = 0; i < questions; ++i) {
      s.receive_status(StatusMessage::prove(11, RankSet::of(1), WorkerScript::kNonce), kTestSwitch);
      s.run();
    }
    std::optional<Event> event;
    while (!event && s.now < Instant{seconds(1)} + seconds(31)) {
      s.run_to_timer();
      event = s.worker.poll_event();
    }
    ASSERT_TRUE(event.has_value());
    EXPECT_EQ(event->failure.code, FailureCode::kJoinTimeout);
    EXPECT_EQ(event->failure.moves, questions == 8) << questions;
  }
}

}  // namespace
}  // namespace atp
