#include <gtest/gtest.h>

#include "atp/core/worker/worker_script_test.h"

// Leaving, and the lease (docs/inside/protocol §2).

namespace atp {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

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

// Every dropped packet is counted.
TEST(WorkerLeave, AnAnswerThatIsTooLateOrForATwinIsCounted) {
  WorkerScript s;
  s.join();
  StatusMessage twins{.code = StatusCode::kLeft};
  twins.about = RankSet::of(1);
  twins.nonce = WorkerScript::kNonce + 1;
  s.receive_status(twins, kTestSwitch);
  EXPECT_EQ(s.worker.counters()[WorkerCounter::kDropWrongNonce], 1u);
  s.worker.leave(s.now);
  s.receive_ack(s.ack(), kTestSwitch);
  EXPECT_EQ(s.worker.counters()[WorkerCounter::kDropNotJoined], 1u);
}

TEST(WorkerLeave, IsGivenUpAfterALease) {
  WorkerScript s;
  s.join();
  s.worker.leave(s.now);
  const Instant begin = s.now;
  bool straight = false;
  while (s.worker.next_timeout() != kNever) {
    for (const SentPacket& packet : s.run_to_timer()) straight |= packet.to == kTestServer;
  }
  EXPECT_EQ(s.now - begin, seconds(5));
  EXPECT_TRUE(straight) << "the tree may have died unnoticed";
}

TEST(WorkerLease, IsTheOneGrantedByTheServer) {
  JoinAck ack = WorkerScript().ack();
  ack.lease_ms = 1500;
  WorkerScript leaving;
  leaving.join(ack);
  leaving.worker.leave(leaving.now);
  const Instant left = leaving.now;
  int straight = 0;
  while (leaving.worker.next_timeout() != kNever) {
    for (const SentPacket& packet : leaving.run_to_timer()) {
      if (packet.to != kTestServer) continue;
      ++straight;
      EXPECT_GE(leaving.now - left, milliseconds(750))
          << "LEAVEs go straight too only in the second half";
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

TEST(WorkerLeave, CarriesItsCause) {
  WorkerScript s;
  s.join();
  s.worker.leave(s.now, "out of memory");
  const auto sent = s.run();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(Leave::read(sent[0].view().body)->cause.view(), "out of memory");
}

TEST(WorkerLeave, TheFirstCauseOfAnotherRankIsKeptWithItsEndpoint) {
  WorkerScript s;
  s.join();
  s.submit({1, 2, 3, 4});
  StatusMessage left{.code = StatusCode::kLeft};
  left.about = RankSet::of(2);
  left.cause = CauseText("out of memory");
  left.add_endpoint(kTestServer);
  s.receive_status(left, kTestSwitch);
  const auto event = s.worker.poll_event();
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->failure.code, FailureCode::kRankLeft);
  left.cause = CauseText("rank 2 left");
  s.receive_status(left, kTestSwitch);
  EXPECT_EQ(s.worker.detail().cause.view(), "out of memory") << "the first cause counts";
  EXPECT_EQ(s.worker.detail().homes[0], kTestServer);
  EXPECT_EQ(s.worker.detail().home_count, 1u);
}

}  // namespace
}  // namespace atp
