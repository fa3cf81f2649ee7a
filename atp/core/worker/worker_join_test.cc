#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "atp/core/worker/worker_script_test.h"

// Joining, and joining again when a node has lost its tables (docs/protocol.md §2).

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

TEST(WorkerJoin, ARefusalWithItsNonceEndsIt) {
  for (const StatusCode code : {StatusCode::kRankTaken, StatusCode::kRefused}) {
    WorkerScript s;
    s.worker.start(s.now);
    s.run();
    StatusMessage status{.code = code};
    status.nonce = 3;
    s.receive_status(status, kTestSwitch);
    EXPECT_FALSE(s.worker.poll_event().has_value()) << "the twin's refusal is not ours";
    status.nonce = 0;
    s.receive_status(status, kTestSwitch);
    EXPECT_FALSE(s.worker.poll_event().has_value()) << "an answer has the nonce of its JOIN";
    status.nonce = WorkerScript::kNonce;
    s.receive_status(status, kTestSwitch);
    const auto event = s.worker.poll_event();
    ASSERT_TRUE(event.has_value());
    EXPECT_EQ(event->failure.code,
              code == StatusCode::kRankTaken ? FailureCode::kRankTaken : FailureCode::kRefused);
  }
}

TEST(WorkerJoin, ARefusalIsReportedWithWhatWasExpectedAndFoundAndWhichRanksDiffer) {
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

StatusMessage no_room() {
  return StatusMessage::refused({RefusalReason::kTooManyJobs, 256}, RankSet::of(1),
                                WorkerScript::kNonce);
}

StatusMessage draining() {
  return StatusMessage::refused({RefusalReason::kDraining}, RankSet::of(1), WorkerScript::kNonce);
}

TEST(WorkerJoin, ASwitchThatDrainsOrHasNoRoomOrTooSmallAKIsBypassed) {
  for (const RefusalReason reason :
       {RefusalReason::kTooManyJobs, RefusalReason::kMemory, RefusalReason::kValueCount,
        RefusalReason::kDraining, RefusalReason::kTenantJobs, RefusalReason::kTenantMemory}) {
    WorkerScript s;
    s.worker.start(s.now);
    s.run();
    s.receive_status(StatusMessage::refused({reason}, RankSet::of(1), WorkerScript::kNonce),
                     kTestSwitch);
    EXPECT_FALSE(s.worker.attached());
    JoinAck ack = s.ack();
    ack.detachments = 1;
    ack.detached = true;
    s.receive_ack(ack, kTestServer);
    EXPECT_EQ(s.worker.poll_event()->kind, EventKind::kJoined);
    s.advance(milliseconds(250));
    s.run();
    const auto told = s.worker.poll_event();
    ASSERT_TRUE(told);
    EXPECT_EQ(told->kind, EventKind::kDetached);
    EXPECT_EQ(told->failure.reason, reason) << "it was not silent";
    EXPECT_EQ(told->endpoint, kTestSwitch);
  }
}

// The switch has only passed on what the server says, which the straight path says, too.
TEST(WorkerJoin, ADrainingServerIsNotASilentSwitch) {
  WorkerScript s;
  s.worker.start(s.now);
  s.run();
  s.receive_status(draining(), kTestSwitch);
  s.receive_status(draining(), kTestServer);
  std::vector<Event> events;
  for (const Instant end = s.now + seconds(5); s.now < end;) {
    s.run_to_timer();
    while (const auto event = s.worker.poll_event()) events.push_back(*event);
  }
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, EventKind::kNoRoom) << "said at once";
  EXPECT_EQ(events[0].failure.reason, RefusalReason::kDraining);
  EXPECT_EQ(events[0].failure.endpoint, kTestServer);
}

TEST(WorkerJoin, AServerThatDrainsIsAskedAgainUntilItHasBeenReplaced) {
  WorkerScript s;
  s.worker.start(s.now);
  s.run();
  s.receive_status(draining(), kTestServer);
  EXPECT_EQ(s.worker.poll_event()->kind, EventKind::kNoRoom);
  EXPECT_FALSE(s.worker.poll_event().has_value());
  s.run_to_timer();
  s.receive_ack(s.ack(), kTestSwitch);
  EXPECT_TRUE(s.worker.joined());
}

// A crashed job's place is free when its leases have ended.
TEST(WorkerJoin, AServerWithoutRoomIsAskedAgainForLongerThanALease) {
  WorkerScript s;
  s.worker.start(s.now);
  for (const Instant end = s.now + seconds(5); s.now < end;) {
    s.run_to_timer();
    s.receive_status(no_room(), kTestServer);
    ASSERT_FALSE(s.worker.joined());
    for (auto event = s.worker.poll_event(); event; event = s.worker.poll_event()) {
      ASSERT_EQ(event->kind, EventKind::kNoRoom)
          << "said once; it explains the tree's silence, too";
    }
  }
  JoinAck ack = s.ack();
  ack.detachments = 1;
  ack.detached = true;
  s.receive_ack(ack, kTestServer);
  EXPECT_TRUE(s.worker.joined());
}

TEST(WorkerJoin, AServerThatNeverHasRoomFailsTheJoinWithItsReason) {
  WorkerScript s;
  s.worker.start(s.now);
  const Instant begun = s.now;
  std::optional<Failure> failure;
  while (!failure) {
    s.run_to_timer();
    s.receive_status(no_room(), kTestServer);
    while (const auto event = s.worker.poll_event()) {
      if (event->kind == EventKind::kFailed) failure = event->failure;
    }
  }
  EXPECT_EQ(failure->code, FailureCode::kRefused);
  EXPECT_EQ(failure->reason, RefusalReason::kTooManyJobs);
  EXPECT_EQ(failure->expected, 256u);
  EXPECT_GE(s.now - begun, seconds(6));
  EXPECT_LE(s.now - begun, seconds(7));
}

TEST(WorkerJoin, OnceThereIsRoomARankWaitsForItsPeersAsUsual) {
  WorkerScript s;
  s.worker.start(s.now);
  s.run();
  s.receive_status(no_room(), kTestServer);
  s.receive_status({.code = StatusCode::kWaitingFor, .about = RankSet::of(2)}, kTestServer);
  for (const Instant end = s.now + seconds(20); s.now < end;) {
    s.run_to_timer();
    while (const auto event = s.worker.poll_event()) ASSERT_NE(event->kind, EventKind::kFailed);
  }
  s.receive_ack(s.ack(), kTestSwitch);
  EXPECT_TRUE(s.worker.joined());
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

TEST(WorkerJoin, ARefusalOfAnotherRankIsReportedAndFailsNothing) {
  WorkerScript s;
  s.worker.start(s.now);
  s.run();
  const StatusMessage told =
      StatusMessage::refused({RefusalReason::kWorldSize, 3, 8, RankSet::of(1)}, RankSet::of(2), 0);
  s.receive_status(told, kTestServer);
  s.receive_status(told, kTestSwitch);
  const auto event = s.worker.poll_event();
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->kind, EventKind::kPeerRefused);
  EXPECT_EQ(event->failure.ranks, RankSet::of(2));
  EXPECT_EQ(event->failure.found, 8u);
  EXPECT_FALSE(s.worker.poll_event().has_value()) << "once";
  s.receive_ack(s.ack(), kTestSwitch);
  EXPECT_TRUE(s.worker.joined());
}

TEST(WorkerJoin, ANodeOfALaterVersionAnswersInOurFormat) {
  WorkerScript s;
  s.worker.start(s.now);
  s.run();
  StatusMessage versions{.code = StatusCode::kVersions};
  versions.reason = versions_number(ATP_VERSION, ATP_VERSION + 1);
  s.receive_status(versions, kTestServer);
  EXPECT_FALSE(s.worker.poll_event().has_value()) << "it speaks our version as well";
  versions.reason = versions_number(ATP_VERSION + 1, ATP_VERSION + 1);
  s.receive_status(versions, kTestServer);
  const auto event = s.worker.poll_event();
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->failure.code, FailureCode::kRefused);
  EXPECT_EQ(event->failure.reason, RefusalReason::kVersion);
  EXPECT_EQ(event->failure.expected, versions.reason);
  EXPECT_EQ(event->failure.endpoint, kTestServer);
}

// Whoever has seen such a packet can send it again, and its nonce is still the rank's.
TEST(WorkerJoin, AMemberIgnoresWhatTurnedDownAnEarlierJoin) {
  struct Case {
    const char* name;
    StatusMessage said;
    Endpoint from;
    bool is_answer_to_a_straight_join;
    bool stays_attached;
  };
  StatusMessage full = no_room();
  full.nonce = WorkerScript::kNonce;
  StatusMessage narrow =
      StatusMessage::refused({RefusalReason::kValueCount, 4, 3}, RankSet::of(1), full.nonce);
  StatusMessage taken{.code = StatusCode::kRankTaken, .nonce = full.nonce, .about = RankSet::of(1)};
  const Case cases[] = {
      {"the server had no room", full, kTestServer, true, true},
      {"the switch had no room, as if the server said so", full, kTestServer, false, true},
      {"the switch could not carry K, as if the server said so", narrow, kTestServer, false, true},
      {"the switch knew another holder, as if the server said so", taken, kTestServer, false, true},
      {"the switch had no room, and says it again", full, kTestSwitch, false, false},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    WorkerScript s;
    s.join();
    Outbox message;
    const std::uint8_t direct = c.is_answer_to_a_straight_join ? ATP_FLAG_DIRECT : 0;
    put_status(message, s.head(PacketType::kStatus, direct), RankSet::of(1), c.said);
    message.send_to(c.from);
    const auto bytes = message.bytes_of(message.packets()[0]);
    s.worker.handle_packet(s.now, c.from, bytes, s.tensors, s.out);
    while (const auto event = s.worker.poll_event()) EXPECT_NE(event->kind, EventKind::kFailed);
    EXPECT_TRUE(s.worker.joined());
    EXPECT_EQ(s.worker.attached(), c.stays_attached);
  }
}

// Anybody can send a packet without a tag from a forged address.
TEST(WorkerJoin, WithAKeyWhatHasNoTagIsOnlyNamedWhenTheJobFails) {
  WorkerConfig config = WorkerScript::default_config();
  config.has_key = true;
  for (const bool is_member : {false, true}) {
    SCOPED_TRACE(is_member ? "the refusal of a member's key" : "another version during joining");
    WorkerScript s(config);
    is_member ? s.join() : s.worker.start(s.now);
    s.run();
    std::optional<Failure> failure;
    const Instant begun = s.now;
    while (!failure) {
      std::vector<std::uint8_t> other(48);
      other[ATP_AT_VERSION] = 3;
      other[ATP_AT_TYPE] = ATP_STATUS;
      s.worker.handle_packet(s.now, kTestServer, other, s.tensors, s.out);
      s.receive_status(StatusMessage::refused({RefusalReason::kKey, 2}, RankSet::of(1),
                                              is_member ? WorkerScript::kNonce : 4711),
                       kTestServer);
      s.run_to_timer();
      while (const auto event = s.worker.poll_event()) {
        if (event->kind == EventKind::kFailed) failure = event->failure;
      }
    }
    EXPECT_EQ(failure->code, is_member ? FailureCode::kServerLost : FailureCode::kJoinTimeout);
    EXPECT_EQ(failure->reason, is_member ? RefusalReason::kKey : RefusalReason::kVersion);
    EXPECT_EQ(failure->expected, is_member ? 2u : 3u);
    EXPECT_GE(s.now - begun, is_member ? seconds(5) : seconds(30));
  }
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

}  // namespace
}  // namespace atp
