#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "atp/core/worker/worker_script_test.h"

// Who is silent: the server, or the first node of the tree that does not answer
// (docs/inside/protocol §2, *Who is silent* and *Silence of the server*).

namespace atp {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

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

TEST(WorkerSilence, IfNeitherPathAnswersTheSwitchIsNotBlamed) {
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
TEST(WorkerSilence, TheFirstNodeBeyondThoseThatAnswerIsNamed) {
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
TEST(WorkerSilence, TheSilenceOfAServerIsToldWithinTwoSecondsWhateverTheLease) {
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

TEST(WorkerSilence, AnAnswerWithAnotherNonceClearsNobody) {
  WorkerScript s;
  s.join();
  events_of_silence(s, milliseconds(1700));
  receive_here(s, 0, WorkerScript::kNonce + 1);
  const auto events = events_of_silence(s, milliseconds(3400));
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(events[0].failure.heard, 0);
}

TEST(WorkerSilence, WhileTheServerIsSilentTheSwitchIsProbed) {
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

// The server pauses, and then its answers come by both paths, the straight one first.
TEST(WorkerSilence, AServerThatPausesBlamesNoSwitchHoweverLong) {
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

TEST(WorkerSilence, AServerThatReturnsFromAPauseBlamesNoSwitch) {
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
