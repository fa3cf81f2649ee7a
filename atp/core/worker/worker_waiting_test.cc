#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "atp/core/worker/worker_script_test.h"

// What a worker reports about the ranks that it waits for, and what it tells the server about its
// operation (docs/inside/protocol §6, *Waiting for*).

namespace atp {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(WorkerWaiting, TheRanksThatItWaitsForAreReportedOncePerEpisode) {
  WorkerScript s;
  s.join();
  s.submit({1, 2, 3, 4});
  s.run();
  StatusMessage waiting{.code = StatusCode::kWaitingFor};
  waiting.about = RankSet::of(2);
  waiting.add_endpoint(kTestServer);
  std::vector<Duration> told;
  const Instant begin = s.now;
  while (s.now < begin + seconds(20)) {
    s.advance(seconds(1));
    s.receive_ack(s.ack(), kTestSwitch);
    s.receive_status(waiting, kTestSwitch);
    while (const auto event = s.worker.poll_event()) {
      ASSERT_EQ(event->kind, EventKind::kWaiting);
      EXPECT_EQ(event->failure.ranks, RankSet::of(2));
      EXPECT_EQ(s.worker.detail().homes[0], kTestServer);
      told.push_back(s.now - begin);
    }
  }
  EXPECT_EQ(told, std::vector<Duration>{seconds(1)});
}

TEST(WorkerWaiting, TheRanksThatItWaitsForAreReportedNoSoonerThanConfigured) {
  WorkerConfig config = WorkerScript::default_config();
  config.tell_waiting = seconds(4);
  WorkerScript s(config);
  s.join();
  s.submit({1, 2, 3, 4});
  s.run();
  StatusMessage waiting{.code = StatusCode::kWaitingFor};
  waiting.about = RankSet::of(2);
  for (int second = 1; second <= 4; ++second) {
    s.advance(seconds(1));
    s.receive_ack(s.ack(), kTestSwitch);
    s.receive_status(waiting, kTestSwitch);
    EXPECT_EQ(s.worker.poll_event().has_value(), second == 4) << "after " << second << " s";
  }
}

// What the worker sends as the name of the operation that waits; empty: nothing.
std::string described(WorkerScript& s, const StatusMessage& waiting, std::uint32_t operation) {
  s.receive_status(waiting, kTestSwitch, 0, operation);
  while (s.worker.poll_event()) continue;
  if (const auto asked = s.worker.asked_about()) s.worker.describe(*asked, "sum #17");
  std::string text;
  for (const SentPacket& packet : of_type(s.run(), PacketType::kStatus)) {
    const auto status = StatusMessage::read(packet.view());
    if (!status || status->code != StatusCode::kOperation) continue;
    EXPECT_EQ(packet.to, kTestServer);
    EXPECT_TRUE(packet.view().has(ATP_FLAG_DIRECT));
    EXPECT_EQ(packet.view().header.operation, operation);
    text = status->cause.view();
  }
  return text;
}

TEST(WorkerWaiting, AServerThatDoesNotKnowTheNameOfTheOperationIsToldEachTimeItReports) {
  WorkerScript s;
  s.join();
  s.submit({1, 2, 3, 4});
  const std::uint32_t operation = gradients(s.run()).at(0).view().header.operation;
  StatusMessage waiting{.code = StatusCode::kWaitingFor};
  waiting.about = RankSet::of(2);
  s.advance(seconds(1));
  EXPECT_EQ(described(s, waiting, operation), "sum #17");
  s.advance(seconds(1));
  EXPECT_EQ(described(s, waiting, operation), "sum #17") << "the packet was lost";
  s.advance(seconds(1));
  EXPECT_EQ(described(s, waiting, operation + 1), "") << "it has another name";
  waiting.cause = CauseText("sum #17");
  EXPECT_EQ(described(s, waiting, operation), "") << "the server knows it now";
  EXPECT_EQ(s.worker.counters()[WorkerCounter::kDescriptionsSent], 2u);
}

TEST(WorkerWaiting, EachStreamsOperationThatWaitsHasItsOwnName) {
  WorkerConfig config = WorkerScript::default_config();
  config.stream_count = 2;
  WorkerScript s(config);
  JoinAck agreement = s.ack();
  agreement.stream_count = 2;
  s.join(agreement);
  const OperationId of_four = s.submit({1, 2, 3, 4});
  const OperationId of_three = s.submit({1, 2, 3});
  const std::vector<SentPacket> sent = gradients(s.run());
  ASSERT_EQ(sent.size(), 2u);
  StatusMessage waiting{.code = StatusCode::kWaitingFor};
  waiting.about = RankSet::of(2);
  s.advance(seconds(1));
  for (const SentPacket& gradient : sent) {
    Outbox message;
    ControlHead head = s.head(PacketType::kStatus);
    head.stream = gradient.view().header.stream;
    head.operation = gradient.view().header.operation;
    put_status(message, head, RankSet::of(1), waiting);
    message.send_to(kTestSwitch);
    s.worker.handle_packet(s.now, kTestSwitch, message.bytes_of(message.packets()[0]), s.tensors,
                           s.out);
  }
  while (const auto asked = s.worker.asked_about()) {
    s.worker.describe(*asked, "sum #" + std::to_string(*asked));
  }
  std::set<std::pair<std::uint32_t, std::string>> told, expected;
  for (const SentPacket& packet : of_type(s.run(), PacketType::kStatus)) {
    const auto status = StatusMessage::read(packet.view());
    if (status->code != StatusCode::kOperation) continue;
    told.emplace(packet.view().header.operation, status->cause.view());
  }
  for (const SentPacket& gradient : sent) {
    const atp_header& header = gradient.view().header;
    const OperationId id = header.value_count == 4 ? of_four : of_three;
    expected.emplace(header.operation, "sum #" + std::to_string(id));
  }
  EXPECT_EQ(told, expected);
}

TEST(WorkerWaiting, TheEndOfTheWaitingIsReportedOnceToo) {
  WorkerScript s;
  s.join();
  s.submit({1, 2, 3, 4});
  const std::vector<SentPacket> sent = s.run();
  StatusMessage waiting{.code = StatusCode::kWaitingFor};
  waiting.about = RankSet::of(2);
  s.advance(seconds(2));
  s.receive_status(waiting, kTestSwitch);
  ASSERT_EQ(s.worker.poll_event()->kind, EventKind::kWaiting);
  s.advance(seconds(1));
  waiting.about.insert(0);
  s.receive_status(waiting, kTestSwitch);
  const auto more = s.worker.poll_event();
  ASSERT_TRUE(more) << "for another rank as well";
  EXPECT_EQ(more->kind, EventKind::kWaiting);
  s.advance(seconds(1));
  for (const SentPacket& gradient : sent) s.echo(gradient);
  auto event = s.worker.poll_event();
  ASSERT_TRUE(event);
  EXPECT_EQ(event->kind, EventKind::kWaitingOver);
  EXPECT_EQ(event->failure.ranks, waiting.about);
  EXPECT_EQ(event->waited, seconds(3)) << "counted from a second before the first report";
  event = s.worker.poll_event();
  ASSERT_TRUE(event);
  EXPECT_EQ(event->kind, EventKind::kCompleted);
}

// The answer to a repeat of a contribution that the server has tells why the fragment is
// incomplete.
TEST(WorkerWaiting, AnAnswerThatAPeerIsMissingIsNotReported) {
  WorkerScript s;
  s.join();
  s.submit({1, 2, 3, 4});
  s.run();
  StatusMessage waiting{.code = StatusCode::kWaitingFor};
  waiting.about = RankSet::of(2);
  s.receive_status(waiting, kTestServer);
  EXPECT_FALSE(s.worker.poll_event());
  EXPECT_EQ(s.worker.waiting_since(), kNever);
}

TEST(WorkerWaiting, ARankThatIsLateInEachStepIsNotReportedEachTime) {
  WorkerScript s;
  s.join();
  StatusMessage waiting{.code = StatusCode::kWaitingFor};
  waiting.about = RankSet::of(2);
  std::vector<Duration> told;
  const Instant begin = s.now;
  for (int step = 0; step < 15; ++step) {
    s.submit({1, 2, 3, 4});
    const std::vector<SentPacket> sent = s.run();
    s.advance(seconds(1));
    s.receive_ack(s.ack(), kTestSwitch);
    s.receive_status(waiting, kTestSwitch);
    for (const SentPacket& gradient : sent) s.echo(gradient);
    while (const auto event = s.worker.poll_event()) {
      if (event->kind == EventKind::kWaiting) told.push_back(s.now - begin);
    }
  }
  EXPECT_EQ(told, (std::vector<Duration>{seconds(1), seconds(11)}));
}

}  // namespace
}  // namespace atp
