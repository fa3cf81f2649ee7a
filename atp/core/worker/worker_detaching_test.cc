#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "atp/core/worker/worker_script_test.h"

// Detaching from the tree and returning to it (docs/inside/protocol §5).

namespace atp {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(WorkerDetaching, ThreeJoinsThatOnlyTheStraightPathAnswersDetach) {
  WorkerScript s;
  s.join();
  const Instant joined = s.now;
  while (s.worker.attached()) {
    s.run_to_timer();
    s.receive_ack(s.ack(), kTestServer);
  }
  const Duration first = Timing{}.join_first;
  EXPECT_EQ(s.now, joined + Timing{}.join_refresh + (1 + 2 + 4) * first + 4 * first);
}

TEST(WorkerDetaching, ARefusalThroughTheTreeMakesItDetach) {
  WorkerScript s;
  s.join();
  s.receive_status({.code = StatusCode::kRefused, .nonce = s.ack().nonce, .about = RankSet::of(1)},
                   kTestSwitch);
  EXPECT_TRUE(s.worker.joined());
  EXPECT_FALSE(s.worker.attached());
}

// ICMP reports that the switch is gone, and the server answers on the straight path.
void lose_the_switch(WorkerScript& s) {
  s.worker.handle_unreachable(s.now, kTestSwitch, s.tensors, s.out);
  s.run();
  s.receive_ack(s.ack(), kTestServer);
}

TEST(WorkerDetaching, AnIcmpErrorAboutTheParentDetachesOnceTheStraightPathAnswersAndResendsDirect) {
  WorkerScript s;
  s.join();
  s.submit(std::vector<float>(16, 1.0F));
  s.run();
  s.worker.handle_unreachable(s.now, kTestSwitch, s.tensors, s.out);
  EXPECT_TRUE(s.worker.attached()) << "a host that has lost its link reports this about everybody";
  EXPECT_EQ(joins(s.run()).size(), 2u) << "it asks on both paths";
  s.receive_ack(s.ack(), kTestServer);
  EXPECT_FALSE(s.worker.attached());
  const auto sent = gradients(s.run());
  ASSERT_EQ(sent.size(), 2u) << "paced: two, then two per answer";
  for (const SentPacket& packet : sent) {
    EXPECT_EQ(packet.to, kTestServer);
    EXPECT_EQ(packet.view().header.flags, ATP_FLAG_DIRECT);
  }
  s.answer(sent[0], {0, 0, 0, 0}, kTestServer);
  EXPECT_EQ(gradients(s.run()).size(), 2u);
}

TEST(WorkerDetaching, ItsJoinsSayAtOnceThatItHasDetachedOnBothPaths) {
  WorkerScript s;
  s.join();
  s.worker.handle_unreachable(s.now, kTestSwitch, s.tensors, s.out);
  s.run();
  s.receive_ack(s.ack(), kTestServer);
  const auto said = joins(s.run());
  ASSERT_EQ(said.size(), 2u);
  EXPECT_NE(said[0].to, said[1].to);
  for (const SentPacket& join : said) {
    const auto body = Join::read(join.view().body);
    EXPECT_TRUE(body->detached);
    EXPECT_EQ(body->detachments, 1u);
  }
}

TEST(WorkerDetaching, FirstTransmissionsWhileDetachedGoStraightAndMayNotBeMerged) {
  WorkerScript s;
  s.join();
  lose_the_switch(s);
  s.submit({1, 2, 3, 4});
  const auto sent = gradients(s.run());
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].to, kTestServer);
  EXPECT_EQ(sent[0].view().header.flags, ATP_FLAG_DIRECT);
}

TEST(WorkerDetaching, OnlyAnAnswerThroughTheTreeAttachesIt) {
  WorkerScript s;
  s.join();
  s.submit({1, 2, 3, 4});
  s.run();
  lose_the_switch(s);
  s.run();
  JoinAck ack = s.ack();
  ack.detached = true;
  ack.detachments = 1;
  s.receive_ack(ack, kTestServer);
  EXPECT_FALSE(s.worker.attached()) << "only the answer to its own probe counts";
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
  EXPECT_EQ(again[0].view().header.flags, 0) << "rung 1 of the ladder";
}

TEST(WorkerDetaching, TheSecondReturnWaitsAndEachFurtherOneTwiceAsLong) {
  WorkerScript s;
  s.join();
  JoinAck ack = s.ack();
  ack.detached = true;
  for (const int wait_ms : {0, 250, 500, 1000, 2000}) {
    SCOPED_TRACE(wait_ms);
    lose_the_switch(s);
    s.run();
    ++ack.detachments;
    if (wait_ms > 0) {
      s.advance(milliseconds(wait_ms - 1));
      s.receive_ack(ack, kTestSwitch);
      EXPECT_FALSE(s.worker.attached());
      s.advance(milliseconds(1));
    }
    s.receive_ack(ack, kTestSwitch);
    EXPECT_TRUE(s.worker.attached());
  }
}

// The tree may have died since.
TEST(WorkerDetaching, AnAnswerToAProbeOfAnEarlierDetachmentDoesNotAttachIt) {
  WorkerScript s;
  s.join();
  JoinAck ack = s.ack();
  ack.detached = true;
  ack.detachments = 1;
  lose_the_switch(s);
  s.receive_ack(ack, kTestSwitch);
  ASSERT_TRUE(s.worker.attached());
  lose_the_switch(s);
  s.advance(milliseconds(300));
  s.receive_ack(ack, kTestSwitch);
  EXPECT_FALSE(s.worker.attached());
  ack.detachments = 2;
  s.receive_ack(ack, kTestSwitch);
  EXPECT_TRUE(s.worker.attached());
  EXPECT_EQ(s.worker.counters()[WorkerCounter::kDetachments], 2u);
  EXPECT_EQ(s.worker.counters()[WorkerCounter::kReturns], 2u);
}

TEST(WorkerDetaching, ADetachedWorkerDoesNotDetachAgain) {
  WorkerScript s;
  s.worker.start(s.now);
  s.run();
  for (int errors = 0; errors < 3; ++errors) {
    s.worker.handle_unreachable(s.now, kTestSwitch, s.tensors, s.out);
  }
  EXPECT_FALSE(s.worker.attached());
  EXPECT_EQ(s.worker.counters()[WorkerCounter::kDetachments], 1u);
  for (const SentPacket& join : joins(s.run())) {
    EXPECT_EQ(Join::read(join.view().body)->detachments, 1u);
  }
}

// Runs the worker for `time`. Each JOIN that the straight path or the tree gets is answered at
// once.
std::optional<Event> told_of_detaching(WorkerScript& s, Duration time, bool straight, bool tree) {
  std::optional<Event> told;
  const Instant end = s.now + time;
  while (s.worker.next_timeout() <= end) {
    for (const SentPacket& packet : joins(s.run_to_timer())) {
      const Join join = Join::read(packet.view().body).value();
      if (!(packet.to == kTestServer ? straight : tree)) continue;
      JoinAck ack = s.ack();
      ack.detachments = join.detachments;
      ack.detached = join.detached;
      s.receive_ack(ack, packet.to);
    }
    while (const auto event = s.worker.poll_event()) {
      if (event->kind == EventKind::kDetached) told = *event;
    }
  }
  s.now = end;
  return told;
}

// Runs the worker until a timer repeats a fragment on rung 2.
void repeat_twice(WorkerScript& s, bool floats = false) {
  s.join();
  s.submit({1, 2, 3, 4});
  const SentPacket first = gradients(s.run()).at(0);
  if (floats) s.nack(first, ATP_FLAG_FLOAT);  // on rung 1
  for (bool on_rung_2 = false; !on_rung_2;) {
    for (const SentPacket& packet : gradients(s.run_to_timer())) {
      on_rung_2 |= packet.view().has(floats ? ATP_FLAG_FLOAT : ATP_FLAG_RESEND);
    }
  }
}

TEST(WorkerDetaching, ASecondRepeatByTimerAsksTheTreeWhichHasAMoment) {
  struct Row {
    const char* name;
    bool straight, tree;  // answers JOINs
    int after_ms;
    bool attached;
    bool floats = false;
  };
  const Row rows[] = {
      {"the tree still has a moment", true, false, 199, true},
      {"the tree is silent", true, false, 200, false},
      {"a rank is late", true, true, 5000, true},
      {"both paths are silent", false, false, 1000, true},
      {"the values go as floats, and the tree is silent", true, false, 200, false, true},
      {"the values go as floats, and a rank is late", true, true, 5000, true, true},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    WorkerConfig config = WorkerScript::default_config();
    config.timing.join_refresh = seconds(4);  // or unanswered JOINs show it sooner
    WorkerScript s(config);
    repeat_twice(s, row.floats);
    told_of_detaching(s, milliseconds(row.after_ms), row.straight, row.tree);
    EXPECT_EQ(s.worker.attached(), row.attached);
  }
}

TEST(WorkerDetaching, ItsTreeIsAskedAgainAtEachRepeat) {
  WorkerScript s;
  repeat_twice(s);
  told_of_detaching(s, seconds(10), true, true);
  EXPECT_TRUE(s.worker.attached());
  const Instant dead = s.now;
  while (s.worker.attached() && s.now < dead + seconds(4)) {
    told_of_detaching(s, milliseconds(10), true, false);
  }
  EXPECT_LE(s.now - dead, seconds(2));
}

TEST(WorkerDetaching, AnIcmpErrorEndsThePatience) {
  WorkerScript s;
  repeat_twice(s);
  told_of_detaching(s, milliseconds(100), true, false);
  EXPECT_TRUE(s.worker.attached());
  lose_the_switch(s);
  EXPECT_FALSE(s.worker.attached());
}

TEST(WorkerDetaching, AfterASilenceOfBothPathsTheSwitchHasTimeToBeFound) {
  struct Row {
    const char* name;
    int silent_ms;  // both
    int later_ms;   // than the server, the switch is found
    bool is_named;
  };
  const Row rows[] = {
      {"the link was down for a second, and the server is found first", 1000, 900, false},
      {"it was down for a moment", 200, 900, false},
      {"it was down for a second, and the switch is dead", 1000, 10'000, true},
      {"it was never down, and the switch is dead", 0, 10'000, true},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    WorkerScript s;
    s.join();
    s.submit({1, 2, 3, 4});
    s.run();
    EXPECT_FALSE(told_of_detaching(s, milliseconds(row.silent_ms), false, false));
    // A dead one is named as soon as a live one would have been found.
    const auto told = told_of_detaching(s, milliseconds(std::min(row.later_ms, 1600)), true, false);
    EXPECT_EQ(told.has_value(), row.is_named);
    EXPECT_EQ(told ? told->endpoint : kTestSwitch, kTestSwitch);
    if (row.is_named) continue;
    EXPECT_FALSE(told_of_detaching(s, seconds(3), true, true));
    EXPECT_TRUE(s.worker.attached());
    EXPECT_EQ(s.worker.counters()[WorkerCounter::kDetachments], 1u);
  }
}

}  // namespace
}  // namespace atp
