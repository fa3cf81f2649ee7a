#include <gtest/gtest.h>

#include <span>
#include <string>
#include <vector>

#include "atp/core/worker/worker_script_test.h"

// What turns down a JOIN: refusals, for want of room too, and nodes of other versions
// (docs/inside/protocol §2, *Refusals*, *No room*, *Draining*).

namespace atp {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(WorkerRefusal, ARefusalWithItsNonceEndsIt) {
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

TEST(WorkerRefusal, ARefusalIsReportedWithWhatWasExpectedAndFoundAndWhichRanksDiffer) {
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

// Somebody may take a JOIN to another node, whose refusal then comes to this rank.
TEST(WorkerRefusal, ARefusalThatWasMeantForAnotherNodeCountsOnlyFromThatNode) {
  const Endpoint spine = Endpoint::ipv4(10, 0, 0, 2, 5501);
  const Endpoint elsewhere = Endpoint::ipv4(10, 9, 9, 9, 5501);
  struct Row {
    const char* name;
    Endpoint from;  // the switch, or straight
    std::size_t hop;
    Endpoint meant_for;
    bool counts;
  };
  const Row rows[] = {
      {"the switch says that it has another address", kTestSwitch, 0, kTestSwitch, true},
      {"the second switch says so of itself", kTestSwitch, 1, spine, true},
      {"the server says so of itself", kTestSwitch, 2, kTestServer, true},
      {"the server says so straight", kTestServer, 0, kTestServer, true},
      {"the server has got what the switch should have", kTestSwitch, 2, kTestSwitch, false},
      {"the server has got that, and answers straight", kTestServer, 0, kTestSwitch, false},
      {"the switch has got what the second one should have", kTestSwitch, 0, spine, false},
      {"the second switch has got the first one's", kTestSwitch, 1, kTestSwitch, false},
      {"nobody was left on its route", kTestSwitch, 1, {}, false},
  };
  for (const Row& row : rows) {
    for (const bool is_member : {false, true}) {
      SCOPED_TRACE(row.name + std::string(is_member ? ", a member" : ""));
      WorkerConfig config = WorkerScript::default_config();
      config.route.clear();
      for (const Endpoint& hop : {kTestSwitch, spine, kTestServer}) config.route.push_back(hop);
      WorkerScript s(config);
      if (is_member) {
        s.join();
      } else {
        s.worker.start(s.now);
        s.run();
      }
      while (s.worker.poll_event()) {
      }
      Outbox message;
      put_status(message,
                 s.head(PacketType::kStatus, row.from == kTestServer ? ATP_FLAG_DIRECT : 0),
                 RankSet::of(1),
                 StatusMessage::refused(Refusal::if_meant_for_another(row.meant_for, elsewhere),
                                        RankSet::of(1), WorkerScript::kNonce));
      message.send_to(row.from);
      message.edit_payloads([&](std::span<std::uint8_t> room, std::size_t length, const Endpoint&) {
        room[ATP_AT_HOPS] = static_cast<std::uint8_t>(ATP_HOPS - row.hop);
        return length;
      });
      s.receive(message, row.from);
      const auto event = s.worker.poll_event();
      const bool is_over = event && event->kind == EventKind::kFailed;
      const bool detaches = is_member && row.from == kTestSwitch;
      EXPECT_EQ(is_over, row.counts && !detaches);
      EXPECT_EQ(s.worker.attached(), !(row.counts && detaches));
    }
  }
}

// Its switch refuses it; the ranks that it contradicts learn why it does not come from the server,
// which believes only a JOIN with a proof.
TEST(WorkerRefusal, ARankThatContradictsOthersEndsOnceTheServerCanKnow) {
  enum class Proof : std::uint8_t { kBefore, kAfter, kNever };
  struct Row {
    const char* name;
    Refusal refusal;
    Proof proof;
    bool ends_at_once;
    std::size_t straight_joins;  // with the proof, before it ends
  };
  const Refusal size{RefusalReason::kWorldSize, 4, 3, RankSet::of(0)};
  const Refusal streams{RefusalReason::kStreams, 4, 3, RankSet::of(0)};
  const Row rows[] = {
      {"the server's proof came first", size, Proof::kBefore, true, 1},
      {"the proof comes after the refusal", size, Proof::kAfter, false, 1},
      {"other streams, and the proof comes later", streams, Proof::kAfter, false, 1},
      {"the server does not answer", size, Proof::kNever, false, 0},
      {"nobody else is concerned", {RefusalReason::kWorldSize}, Proof::kNever, true, 0},
      {"a socket is no contradiction at the server",
       {RefusalReason::kSocket, 0, 0, RankSet::of(0)},
       Proof::kNever,
       true,
       0},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    WorkerScript s;
    s.worker.start(s.now);
    s.run();
    const auto prove = [&] {
      s.receive_status(StatusMessage::prove(9, RankSet::of(1), WorkerScript::kNonce), kTestServer);
    };
    if (row.proof == Proof::kBefore) prove();
    s.receive_status(StatusMessage::refused(row.refusal, RankSet::of(1), WorkerScript::kNonce),
                     kTestSwitch);
    auto event = s.worker.poll_event();
    EXPECT_EQ(event.has_value(), row.ends_at_once);
    const Instant refused = s.now;
    if (row.proof == Proof::kAfter) {
      prove();
      event = s.worker.poll_event();
      EXPECT_TRUE(event.has_value());
    }
    std::size_t proven = 0;
    for (const SentPacket& sent : joins(s.take())) {
      proven += sent.to == kTestServer && Join::read(sent.view().body)->proof == 9 ? 1 : 0;
    }
    EXPECT_EQ(proven, row.straight_joins);
    while (!event) {
      s.run_to_timer();
      event = s.worker.poll_event();
      EXPECT_LE(s.now - refused, seconds(1));
    }
    EXPECT_EQ(event->failure.code, FailureCode::kRefused);
    EXPECT_EQ(event->failure.reason, row.refusal.reason);
    EXPECT_EQ(event->failure.endpoint, kTestSwitch);
    EXPECT_EQ(s.now - refused >= seconds(1), row.proof == Proof::kNever && !row.ends_at_once);
    s.take();
    prove();
    s.receive_status(StatusMessage::refused(row.refusal, RankSet::of(1), WorkerScript::kNonce),
                     kTestSwitch);
    EXPECT_TRUE(s.run().empty()) << "it is over";
    EXPECT_EQ(s.worker.next_timeout(), kNever);
  }
}

StatusMessage no_room() {
  return StatusMessage::refused({RefusalReason::kTooManyJobs, 256}, RankSet::of(1),
                                WorkerScript::kNonce);
}

StatusMessage draining() {
  return StatusMessage::refused({RefusalReason::kDraining}, RankSet::of(1), WorkerScript::kNonce);
}

TEST(WorkerRefusal, ASwitchThatDrainsOrHasNoRoomOrTooSmallAKIsBypassed) {
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
TEST(WorkerRefusal, ADrainingServerIsNotASilentSwitch) {
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

TEST(WorkerRefusal, AServerThatDrainsIsAskedAgainUntilItHasBeenReplaced) {
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
TEST(WorkerRefusal, AServerWithoutRoomIsAskedAgainForLongerThanALease) {
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

TEST(WorkerRefusal, AServerThatNeverHasRoomFailsTheJoinWithItsReason) {
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

TEST(WorkerRefusal, OnceThereIsRoomARankWaitsForItsPeersAsUsual) {
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

TEST(WorkerRefusal, ARefusalOfAnotherRankIsReportedAndFailsNothing) {
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

TEST(WorkerRefusal, ANodeOfALaterVersionAnswersInOurFormat) {
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
TEST(WorkerRefusal, AMemberIgnoresWhatTurnedDownAnEarlierJoin) {
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
TEST(WorkerRefusal, WithAKeyWhatHasNoTagIsOnlyNamedWhenTheJobFails) {
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

}  // namespace
}  // namespace atp
