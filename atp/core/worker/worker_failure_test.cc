#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <utility>
#include <vector>

#include "atp/core/worker/worker_script_test.h"

// How a job ends for a worker.

namespace atp {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;

TEST(WorkerFailure, EveryPendingOperationFailsWithTheCauseAndLaterOnesAreRefused) {
  struct Case {
    const char* name;
    void (*cause)(WorkerScript&, const SentPacket&);
    FailureCode code;
    RankSet ranks;
  };
  const Case cases[] = {
      {"lease ended",
       [](WorkerScript& s, const SentPacket&) {
         s.receive_status({.code = StatusCode::kLeaseEnded, .about = RankSet::of(2)}, kTestSwitch);
       },
       FailureCode::kRankLost, RankSet::of(2)},
      {"left",
       [](WorkerScript& s, const SentPacket&) {
         s.receive_status({.code = StatusCode::kLeft, .about = RankSet::of(0)}, kTestSwitch);
       },
       FailureCode::kRankLeft, RankSet::of(0)},
      {"mismatch, ours named first",
       [](WorkerScript& s, const SentPacket& g) {
         s.receive_status({.code = StatusCode::kOperationMismatch,
                           .about = RankSet::of(1),
                           .other = RankSet::of(0)},
                          kTestSwitch, g.view().header.sequence, g.view().header.operation);
       },
       FailureCode::kOperationMismatch, RankSet::of(1)},
      {"mismatch, theirs named first",
       [](WorkerScript& s, const SentPacket& g) {
         s.receive_status({.code = StatusCode::kOperationMismatch,
                           .about = RankSet::of(0),
                           .other = RankSet::of(1)},
                          kTestSwitch, g.view().header.sequence, g.view().header.operation + 1);
       },
       FailureCode::kOperationMismatch, RankSet::of(1)},
      {"server restarted, as the answer to its JOIN",
       [](WorkerScript& s, const SentPacket&) {
         s.receive_status({.code = StatusCode::kServerRestarted, .nonce = 3}, kTestSwitch);
         EXPECT_TRUE(s.worker.joined()) << "that is the answer to a twin";
         s.receive_status({.code = StatusCode::kServerRestarted, .nonce = WorkerScript::kNonce},
                          kTestSwitch);
       },
       FailureCode::kServerRestarted, RankSet{}},
      {"lease ended, as the answer to its JOIN",
       [](WorkerScript& s, const SentPacket&) {
         StatusMessage status{.code = StatusCode::kLeaseEnded, .nonce = 3, .about = RankSet::of(1)};
         s.receive_status(status, kTestSwitch);
         EXPECT_TRUE(s.worker.joined()) << "that is the answer to a twin";
         status.nonce = WorkerScript::kNonce;
         s.receive_status(status, kTestSwitch);
       },
       FailureCode::kRankLost, RankSet::of(1)},
      {"server restarted",
       [](WorkerScript& s, const SentPacket&) {
         JoinAck ack = s.ack();
         ack.server_boot_id = 6;
         s.receive_ack(ack, kTestServer);
       },
       FailureCode::kServerRestarted, RankSet{}},
      {"server silent",
       [](WorkerScript& s, const SentPacket&) {
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

TEST(WorkerFailure, AMismatchRepeatedAfterTheFailureIsIgnored) {
  WorkerScript s;
  s.join();
  s.submit({1, 2, 3, 4});
  const SentPacket gradient = gradients(s.run()).at(0);
  const atp_header& h = gradient.view().header;
  const StatusMessage status{
      .code = StatusCode::kOperationMismatch, .about = RankSet::of(1), .other = RankSet::of(0)};
  for (int i = 0; i < 3; ++i) s.receive_status(status, kTestSwitch, h.sequence, h.operation);
  int failed = 0;
  while (const auto event = s.worker.poll_event()) failed += event->kind == EventKind::kFailed;
  EXPECT_EQ(failed, 1);
}

// The others are ahead: they disagree about an operation that this rank has yet to submit.
TEST(WorkerFailure, AMismatchAnnouncedBeforeTheOperationIsSubmittedFailsIt) {
  for (const bool ours_first : {false, true}) {
    SCOPED_TRACE(ours_first);
    WorkerScript s;
    s.join();
    const OperationSpec spec{.count = 4};
    const std::uint32_t ours = operation_fingerprint(0, spec, ATP_KIND_SUM_FIXED);
    s.receive_status(
        {.code = StatusCode::kOperationMismatch, .about = RankSet::of(0), .other = RankSet::of(2)},
        kTestSwitch, 0, ours_first ? ours : ours + 1);
    EXPECT_TRUE(s.worker.joined());
    s.submit({1, 2, 3, 4});
    std::optional<Event> event;
    while ((event = s.worker.poll_event()) && event->kind != EventKind::kFailed) {
    }
    ASSERT_TRUE(event.has_value());
    EXPECT_EQ(event->failure.code, FailureCode::kOperationMismatch);
    EXPECT_EQ(event->failure.ranks, RankSet::of(1) | RankSet::of(ours_first ? 0 : 2));
    EXPECT_EQ(event->failure.other, RankSet::of(ours_first ? 2 : 0));
  }
}

TEST(WorkerFailure, WhateverAMismatchBringsAboutIsReportedAsTheMismatch) {
  struct Row {
    const char* name;
    std::function<void(WorkerScript&)> follows;
    RankSet about = RankSet::of(0);
    RankSet other = RankSet::of(2);
    RankSet named = RankSet::of(0);
    RankSet against = RankSet::of(2);
  };
  const auto left = [](WorkerScript& s) {
    s.receive_status({.code = StatusCode::kLeft, .about = RankSet::of(0)}, kTestSwitch);
  };
  const auto lost = [](WorkerScript& s) {
    s.receive_status({.code = StatusCode::kLeaseEnded, .about = RankSet::of(0)}, kTestSwitch);
  };
  const auto gone = [](WorkerScript& s) {
    s.receive_status({.code = StatusCode::kOperationMismatch,
                      .reason = StatusMessage::kSomeAreGone,
                      .about = RankSet::of(0),
                      .other = RankSet::of(2)},
                     kTestSwitch, 1, 5);
  };
  const Row rows[] = {
      {"the others leave", left},
      {"the server says in the same message that ranks are gone", gone},
      {"their leases end", lost},
      {"this rank is one of those that deviate", lost, RankSet::of(0), RankSet::of(1),
       RankSet::of(1), RankSet::of(0)},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    WorkerScript s;
    s.join();
    s.submit({1, 2, 3, 4});
    s.run();
    s.receive_status(
        {.code = StatusCode::kOperationMismatch, .about = row.about, .other = row.other},
        kTestSwitch, 1, 5);
    EXPECT_TRUE(s.worker.joined()) << "it is not about the pending operation";
    row.follows(s);
    std::optional<Event> event;
    while ((event = s.worker.poll_event()) && event->kind != EventKind::kFailed) {
    }
    ASSERT_TRUE(event.has_value());
    EXPECT_EQ(event->failure.code, FailureCode::kOperationMismatch);
    EXPECT_EQ(event->failure.ranks, row.named);
    EXPECT_EQ(event->failure.other, row.against);
  }
}

// The next operation may be complete already; the one of the mismatch fails when it comes.
TEST(WorkerFailure, AMismatchOfRanksThatAreGoneFailsNoWorkerThatWaitsForNothing) {
  WorkerScript s;
  s.join();
  s.receive_status({.code = StatusCode::kOperationMismatch,
                    .reason = StatusMessage::kSomeAreGone,
                    .about = RankSet::of(0),
                    .other = RankSet::of(2)},
                   kTestSwitch, 1, 5);
  EXPECT_TRUE(s.worker.joined());
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

TEST(WorkerFailure, AnOperationThatHasNotEndedInItsTimeFailsAlthoughItMakesProgress) {
  WorkerScript s;
  s.join();
  const Instant end = s.now + seconds(10);
  std::vector<float> values(4'000, 1);
  s.submit(values, {.timeout = seconds(15), .ends_by = end + seconds(5)});
  // Queued behind the other one.
  const OperationId urgent = s.submit(values, {.timeout = seconds(10), .ends_by = end});
  std::vector<SentPacket> sent = s.run();
  while (s.worker.joined() && s.now < end + seconds(1)) {
    for (const SentPacket& each : std::exchange(sent, {})) {
      if (each.view().header.type == ATP_GRADIENT) s.echo(each);
    }
    s.advance(milliseconds(100));
    sent = s.run();
  }
  EXPECT_EQ(s.now, end);
  std::vector<OperationId> failed;
  while (const std::optional<Event> event = s.worker.poll_event()) {
    if (event->kind != EventKind::kFailed) continue;
    failed.push_back(event->operation);
    EXPECT_EQ(event->failure.code, FailureCode::kOverdue);
    EXPECT_EQ(event->failure.time_out, seconds(10));
    EXPECT_TRUE(event->failure.ranks.empty());
  }
  EXPECT_THAT(failed, ElementsAre(0, urgent));
}

TEST(WorkerFailure, OfTwoOperationsThatMustEndAtOnceTheOldestIsNamed) {
  WorkerScript s;
  s.join();
  const Instant end = s.now + seconds(2);
  s.submit({1, 2, 3, 4}, {.timeout = seconds(3), .ends_by = end});
  s.submit({1, 2, 3, 4}, {.timeout = seconds(2), .ends_by = end});
  s.run();
  s.now = end;
  s.run();
  std::optional<Event> event;
  while ((event = s.worker.poll_event()) && event->kind != EventKind::kFailed) {
  }
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->failure.code, FailureCode::kOverdue);
  EXPECT_EQ(event->failure.time_out, seconds(3));
}

TEST(WorkerFailure, AnOperationThatHasEndedInItsTimeLeavesNoDeadlineBehind) {
  WorkerScript s;
  s.join();
  const Instant end = s.now + seconds(1);
  s.submit({1, 2, 3, 4}, {.ends_by = end});
  for (const SentPacket& each : s.run()) s.echo(each);
  s.submit({1, 2, 3, 4}, {.timeout = seconds(60)});
  s.now = end;
  for (const SentPacket& each : s.run()) s.echo(each);
  EXPECT_TRUE(s.worker.joined());
  EXPECT_EQ(s.worker.counters()[WorkerCounter::kOperationsCompleted], 2U);
}

}  // namespace
}  // namespace atp
