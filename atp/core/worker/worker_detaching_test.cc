#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "atp/core/worker/worker_script_test.h"

// Detaching from the tree and returning to it (docs/protocol.md §5).

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

// Fires every timer for this time, without an answer on any path.
std::vector<Event> events_of_silence(WorkerScript& s, Duration time) {
  std::vector<Event> events;
  const Instant end = s.now + time;
  while (s.worker.next_timeout() <= end) {
    s.run_to_timer();
    while (const auto event = s.worker.poll_event()) events.push_back(*event);
  }
  s.now = end;
  return events;
}

TEST(WorkerDetaching, IfNeitherPathAnswersTheSwitchIsNotBlamed) {
  for (const bool switch_answers : {true, false}) {
    WorkerScript s;
    s.join();
    s.submit({1, 2, 3, 4});
    s.run();
    const auto early = events_of_silence(s, milliseconds(1700));
    EXPECT_TRUE(early.empty());
    if (switch_answers) {
      s.receive_status({.code = StatusCode::kHere, .nonce = WorkerScript::kNonce}, kTestSwitch);
    }
    const auto events = events_of_silence(s, milliseconds(3400));
    ASSERT_EQ(events.size(), 2u);
    EXPECT_EQ(events[0].kind, EventKind::kSilent);
    EXPECT_EQ(events[1].kind, EventKind::kFailed);
    for (const Event& event : events) {
      EXPECT_EQ(event.failure.code, FailureCode::kServerLost);
      EXPECT_EQ(event.failure.endpoint, kTestServer);
      EXPECT_EQ(event.failure.heard, switch_answers ? 1 : 0);
    }
  }
}

constexpr Endpoint kTestSpine = Endpoint::ipv4(10, 0, 0, 2, 5501);
constexpr Endpoint kTestCore = Endpoint::ipv4(10, 0, 0, 3, 5501);

// *Here* of the node that has this place in the route.
void receive_here(WorkerScript& s, std::size_t hop, std::uint64_t nonce = WorkerScript::kNonce) {
  Outbox message;
  StatusMessage here;
  here.code = StatusCode::kHere;
  here.nonce = nonce;
  put_status(message, s.head(PacketType::kStatus), RankSet::of(1), here);
  message.send_to(kTestSwitch);
  message.edit_payloads([&](std::span<std::uint8_t> room, std::size_t length, const Endpoint&) {
    room[ATP_AT_HOPS] = static_cast<std::uint8_t>(ATP_HOPS - hop);
    return length;
  });
  s.receive(message, kTestSwitch);
}

struct Silence {
  const char* name;
  std::vector<std::size_t> heard;  // the places in the route of those that answer
  Endpoint named;
  std::uint8_t reach;
};

// The straight path works throughout: nothing else is said of the server than that.
TEST(WorkerDetaching, TheFirstNodeBeyondThoseThatAnswerIsNamed) {
  const Silence silences[] = {
      {"the rank's own switch is dead", {}, kTestSwitch, 0},
      {"the second switch is dead", {0}, kTestSpine, 1},
      {"the third switch is dead", {0, 1}, kTestCore, 2},
      {"the server does not reach the third switch", {0, 1, 2}, kTestServer, 3},
      {"the answer of the first switch is lost", {1}, kTestCore, 2},
      {"all answer", {0, 1, 2, 3}, kTestSwitch, 4},
  };
  for (const Silence& c : silences) {
    SCOPED_TRACE(c.name);
    WorkerConfig config = WorkerScript::default_config();
    config.route.clear();
    for (const Endpoint& hop : {kTestSwitch, kTestSpine, kTestCore, kTestServer}) {
      config.route.push_back(hop);
    }
    WorkerScript s(config);
    s.join();
    while (s.worker.poll_event()) {
    }
    std::optional<Event> told;
    std::size_t asked = 0;
    const Instant begin = s.now;
    while (!told && s.now < begin + seconds(4)) {
      const auto sent = s.run_to_timer();
      for (const SentPacket& packet : sent) {
        if (packet.view().type() == PacketType::kJoin && packet.view().has(ATP_FLAG_DIRECT)) {
          JoinAck ack = s.ack();
          ack.detachments = s.worker.attached() ? 0 : 1;
          ack.detached = !s.worker.attached();
          s.receive_ack(ack, kTestServer);
        }
        if (packet.view().type() != PacketType::kStatus) continue;
        EXPECT_EQ(packet.to, kTestSwitch);
        const std::size_t hop = StatusMessage::read(packet.view().body, 1)->reason;
        asked += 1;
        const auto& heard = c.heard;
        if (std::find(heard.begin(), heard.end(), hop) == heard.end()) continue;
        s.advance(std::chrono::microseconds(10));
        receive_here(s, hop);
      }
      while (const auto event = s.worker.poll_event()) {
        if (event->kind == EventKind::kDetached) told = *event;
      }
    }
    ASSERT_TRUE(told);
    EXPECT_LE(s.now - begin, seconds(2)) << "the JOINs alone have shown it";
    EXPECT_EQ(told->endpoint, c.named);
    EXPECT_EQ(told->failure.heard, c.reach);
    EXPECT_FALSE(s.worker.attached());
    EXPECT_EQ(asked, 4 * config.route.size()) << "four rounds, one question to each node";
  }
}

// At the last word the next JOIN may be due in a moment or in a whole refresh.
TEST(WorkerDetaching, TheSilenceOfAServerIsToldWithinTwoSecondsWhateverTheLease) {
  for (const std::uint32_t lease_s : {3, 5, 60}) {
    for (int heard_ms = 0; heard_ms < 1000; heard_ms += 50) {
      SCOPED_TRACE(testing::Message() << "lease " << lease_s << " s, heard after " << heard_ms);
      WorkerScript s;
      JoinAck ack = s.ack();
      ack.lease_ms = lease_s * 1000;
      s.join(ack);
      s.advance(milliseconds(heard_ms));
      s.receive_ack(ack, kTestSwitch);
      const Instant begin = s.now;
      std::size_t asked = 0;
      std::optional<Event> told;
      while (!told && s.now < begin + seconds(3)) {
        asked += of_type(s.run_to_timer(), PacketType::kStatus).size();
        told = s.worker.poll_event();
      }
      ASSERT_TRUE(told);
      EXPECT_EQ(told->kind, EventKind::kSilent);
      EXPECT_EQ(s.now - begin, milliseconds(1750));
      EXPECT_EQ(asked, 2 * std::size_t{RouteQuestions::kRounds}) << "the switch and the server";
    }
  }
}

TEST(WorkerDetaching, AnAnswerWithAnotherNonceClearsNobody) {
  WorkerScript s;
  s.join();
  events_of_silence(s, milliseconds(1700));
  receive_here(s, 0, WorkerScript::kNonce + 1);
  const auto events = events_of_silence(s, milliseconds(3400));
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(events[0].failure.heard, 0);
}

TEST(WorkerDetaching, WhileTheServerIsSilentTheSwitchIsProbed) {
  WorkerScript s;
  s.join();
  std::vector<SentPacket> asked;
  const Instant begin = s.now;
  while (s.now < begin + milliseconds(1700)) {
    for (const SentPacket& packet : of_type(s.run_to_timer(), PacketType::kStatus)) {
      asked.push_back(packet);
    }
  }
  ASSERT_FALSE(asked.empty());
  EXPECT_EQ(asked[0].to, kTestSwitch);
  const auto question = StatusMessage::read(asked[0].view().body, 1);
  ASSERT_TRUE(question);
  EXPECT_EQ(question->code, StatusCode::kAreYouThere);
  EXPECT_EQ(question->nonce, WorkerScript::kNonce);
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

// Runs the worker to its first repeat with RESEND.
void repeat_urgently(WorkerScript& s) {
  s.join();
  s.submit({1, 2, 3, 4});
  s.run();
  for (bool resent = false; !resent;) {
    for (const SentPacket& packet : gradients(s.run_to_timer())) {
      resent |= packet.view().has(ATP_FLAG_RESEND);
    }
  }
}

TEST(WorkerDetaching, ARepeatWithResendAsksTheTreeWhichHasAMoment) {
  struct Row {
    const char* name;
    bool straight, tree;  // answers JOINs
    int after_ms;
    bool attached;
  };
  const Row rows[] = {
      {"the tree still has a moment", true, false, 199, true},
      {"the tree is silent", true, false, 200, false},
      {"a rank is late", true, true, 5000, true},
      {"both paths are silent", false, false, 1000, true},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    WorkerConfig config = WorkerScript::default_config();
    config.timing.join_refresh = seconds(4);  // or unanswered JOINs show it sooner
    WorkerScript s(config);
    repeat_urgently(s);
    told_of_detaching(s, milliseconds(row.after_ms), row.straight, row.tree);
    EXPECT_EQ(s.worker.attached(), row.attached);
  }
}

TEST(WorkerDetaching, ItsTreeIsAskedAgainAtEachRepeat) {
  WorkerScript s;
  repeat_urgently(s);
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
  repeat_urgently(s);
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
    const auto told = told_of_detaching(s, milliseconds(std::min(row.later_ms, 2000)), true, false);
    EXPECT_EQ(told.has_value(), row.is_named);
    EXPECT_EQ(told ? told->endpoint : kTestSwitch, kTestSwitch);
    if (row.is_named) continue;
    EXPECT_FALSE(told_of_detaching(s, seconds(3), true, true));
    EXPECT_TRUE(s.worker.attached());
    EXPECT_EQ(s.worker.counters()[WorkerCounter::kDetachments], 1u);
  }
}

// The server pauses, and then its answers come by both paths, the straight one first.
TEST(WorkerDetaching, AServerThatPausesBlamesNoSwitchHoweverLong) {
  for (int tenths = 1; tenths < 49; ++tenths) {
    SCOPED_TRACE(tenths);
    WorkerScript s;
    s.join();
    s.submit({1, 2, 3, 4});
    s.run();
    events_of_silence(s, milliseconds(100 * tenths + 60));
    s.receive_ack(s.ack(), kTestServer);
    s.advance(milliseconds(5));
    s.run();
    s.receive_ack(s.ack(), kTestSwitch);
    s.advance(milliseconds(200));
    s.run();
    EXPECT_TRUE(s.worker.attached());
  }
}

TEST(WorkerDetaching, AServerThatReturnsFromAPauseBlamesNoSwitch) {
  WorkerScript s;
  s.join();
  s.submit({1, 2, 3, 4});
  s.run();
  events_of_silence(s, milliseconds(4900));
  s.receive_ack(s.ack(), kTestServer);  // the straight answer is faster
  EXPECT_TRUE(s.worker.attached());
  const auto event = s.worker.poll_event();
  ASSERT_TRUE(event);
  EXPECT_EQ(event->kind, EventKind::kHeard);
  s.advance(milliseconds(150));
  s.run();
  EXPECT_TRUE(s.worker.attached());
  s.receive_ack(s.ack(), kTestSwitch);
  s.advance(milliseconds(900));
  s.run();
  EXPECT_TRUE(s.worker.attached());
}

}  // namespace
}  // namespace atp
