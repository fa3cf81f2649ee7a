#include "atp/core/worker/worker_membership.h"

#include <gtest/gtest.h>

#include <vector>

#include "atp/core/worker/worker_script_test.h"

// A worker's membership without fragments: what it sends, and what it tells the worker to do.

namespace atp {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Path = WorkerMembership::Path;

class Member {
 public:
  explicit Member(const WorkerConfig& with = WorkerScript::default_config()) : config(with) {
    membership.start(now, config);
  }

  WorkerTurn turn() { return {{now, config, counters, out}, tensors, events}; }
  void advance(Duration by) { now += by; }

  // Runs the timers; sent() has what was sent.
  MembershipChange run() {
    WorkerTurn t = turn();
    return membership.handle_timeout(t);
  }
  MembershipChange run_to_timer() {
    now = std::max(now, membership.next_timeout(config));
    return run();
  }
  // The addresses and DIRECT flags of the packets of this type sent since the last call.
  std::vector<std::pair<Endpoint, bool>> sent(PacketType type) {
    std::vector<std::pair<Endpoint, bool>> found;
    for (const OutPacket& packet : out.packets()) {
      const PacketView view = parse_packet(out.bytes_of(packet)).view();
      if (view.type() == type) found.emplace_back(packet.to, view.has(ATP_FLAG_DIRECT));
    }
    out.clear();
    return found;
  }

  JoinAck ack() const {
    JoinAck ack;
    ack.nonce = config.nonce;
    ack.server_boot_id = 5;
    ack.scale = 100;
    ack.lease_ms = 5000;
    ack.wmax = 4;
    ack.value_count = 4;
    ack.world_size = config.world_size;
    ack.stream_count = 1;
    ack.detachments = detachments;
    ack.detached = !membership.attached();
    return ack;
  }
  MembershipChange hear(Path path) { return hear(path, ack()); }
  MembershipChange hear(Path path, const JoinAck& body) {
    std::vector<std::uint8_t> bytes(JoinAck::kBytes);
    body.write(bytes.data());
    PacketView packet;
    packet.body = bytes;
    WorkerTurn t = turn();
    return membership.handle_join_ack(t, path, packet);
  }
  MembershipChange hear(Path path, const StatusMessage& status, bool pending = true) {
    PacketView packet;
    packet.header.hops = ATP_HOPS;
    if (path == Path::kStraight) packet.header.flags |= ATP_FLAG_DIRECT;
    WorkerTurn t = turn();
    return membership.handle_status(t, path, packet, status, pending);
  }
  // ICMP reports the parent, and the server answers straight.
  MembershipChange lose_parent() {
    WorkerTurn t = turn();
    membership.handle_unreachable(t, config.route.front());
    const MembershipChange change = hear(Path::kStraight);
    if (change.new_path) ++detachments;
    return change;
  }
  void join() {
    run();
    hear(Path::kStraight);
    ASSERT_TRUE(hear(Path::kTree).agreed);
    run();
    out.clear();
  }
  std::vector<EventKind> news() {
    std::vector<EventKind> kinds;
    while (const auto event = events.pop()) kinds.push_back(event->kind);
    return kinds;
  }
  // It tells of its detaching once its questions show whom to name.
  std::vector<EventKind> news_after_questions() {
    const Instant end = now + RouteQuestions::kRounds * config.timing.join_first;
    while (membership.next_timeout(config) <= end) run_to_timer();
    return news();
  }

  Instant now{seconds(1)};
  WorkerConfig config;
  Counters<WorkerCounter> counters;
  Outbox out;
  VectorTensors tensors;
  EventQueue events{8};
  WorkerMembership membership;
  std::uint32_t detachments = 0;
};

TEST(WorkerMembership, JoinsByBothPathsAndBeginsWhenTheTreeAnswers) {
  Member member;
  member.run();
  const std::vector<std::pair<Endpoint, bool>> both = {{kTestSwitch, false}, {kTestServer, true}};
  EXPECT_EQ(member.sent(PacketType::kJoin), both);
  EXPECT_FALSE(member.hear(Path::kStraight).agreed) << "shows nothing about the tree";
  EXPECT_FALSE(member.membership.joined());
  EXPECT_TRUE(member.hear(Path::kTree).agreed);
  EXPECT_TRUE(member.membership.joined());
  EXPECT_EQ(member.membership.agreement(), member.ack());
  EXPECT_FALSE(member.hear(Path::kTree).agreed) << "once";
}

TEST(WorkerMembership, OnlyAnswersToItsOwnJoinCount) {
  struct Case {
    const char* name;
    void (*change)(JoinAck& ack);
    WorkerCounter drop;
  };
  const Case cases[] = {
      {"another nonce", [](JoinAck& a) { ++a.nonce; }, WorkerCounter::kDropWrongNonce},
      {"another world", [](JoinAck& a) { ++a.world_size; }, WorkerCounter::kDropBadBody},
      {"other streams", [](JoinAck& a) { ++a.first_stream; }, WorkerCounter::kDropBadBody},
      {"more values than the path carries", [](JoinAck& a) { ++a.value_count; },
       WorkerCounter::kDropBadBody},
  };
  for (const Case& c : cases) {
    Member member;
    member.run();
    JoinAck ack = member.ack();
    c.change(ack);
    EXPECT_FALSE(member.hear(Path::kTree, ack).agreed) << c.name;
    EXPECT_EQ(member.counters[c.drop], 1u) << c.name;
  }
}

TEST(WorkerMembership, ASilentTreeDetachesAndASilentServerFails) {
  Member tree;  // the server answers straight, the tree never
  tree.run();
  MembershipChange change;
  while (!change.new_path) {
    change = tree.run_to_timer();
    if (!change.new_path) tree.hear(Path::kStraight);
  }
  EXPECT_EQ(tree.now, Instant{seconds(1)} + tree.config.timing.lease);
  EXPECT_EQ(tree.news_after_questions(), (std::vector{EventKind::kDetached}));
  tree.detachments = 1;
  EXPECT_TRUE(tree.hear(Path::kStraight).agreed) << "it starts detached";

  Member kept;
  kept.join();
  for (int i = 0; i < 10; ++i) {
    kept.advance(seconds(1));
    kept.hear(Path::kTree);
    EXPECT_FALSE(kept.run().new_path) << "an answer through the tree renews its lease";
  }

  Member nobody;
  while (!change.failure) change = nobody.run_to_timer();
  EXPECT_EQ(change.failure->code, FailureCode::kJoinTimeout);
  EXPECT_EQ(nobody.now, Instant{seconds(1)} + nobody.config.join_timeout);

  Member server;
  server.join();
  const Instant heard = server.now;
  change = {};
  while (!change.failure) change = server.run_to_timer();
  EXPECT_EQ(change.failure->code, FailureCode::kServerLost);
  EXPECT_EQ(server.now, heard + server.membership.lease(server.config));
}

TEST(WorkerMembership, WithoutASwitchThereIsNothingToDetachFrom) {
  WorkerConfig config = WorkerScript::default_config();
  config.route.pop_front();
  Member member(config);
  member.run();
  ASSERT_TRUE(member.hear(Path::kTree).agreed);
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(member.lose_parent().new_path);
  EXPECT_TRUE(member.membership.attached());
}

TEST(WorkerMembership, ReturnsOnTheAnswerToItsOwnProbeThroughTheTree) {
  Member member;
  member.join();
  JoinAck stale = member.ack();
  EXPECT_TRUE(member.lose_parent().new_path);
  EXPECT_EQ(member.news_after_questions(), (std::vector{EventKind::kDetached}));
  EXPECT_FALSE(member.hear(Path::kTree, stale).new_path) << "an answer from before it detached";
  EXPECT_FALSE(member.hear(Path::kStraight).new_path) << "an answer around the tree";
  EXPECT_TRUE(member.hear(Path::kTree).new_path);
  EXPECT_TRUE(member.membership.attached());
  EXPECT_EQ(member.news(), (std::vector{EventKind::kAttached}));

  EXPECT_TRUE(member.lose_parent().new_path);
  member.run();
  EXPECT_FALSE(member.hear(Path::kTree).new_path) << "the second return waits";
  member.advance(member.config.timing.return_first);
  EXPECT_TRUE(member.hear(Path::kTree).new_path);
}

TEST(WorkerMembership, AForgottenRankJoinsOnceAndRepeatsOnceTheTreeHasItAgain) {
  Member member;
  member.join();
  member.advance(milliseconds(100));
  const StatusMessage unknown{.code = StatusCode::kUnknownJob, .about = RankSet::of(1)};
  for (int i = 0; i < 5; ++i) {
    member.hear(Path::kTree, unknown);
    member.run();
  }
  EXPECT_EQ(member.sent(PacketType::kJoin).size(), 2u) << "one per path answers them all";
  EXPECT_FALSE(member.hear(Path::kStraight).new_path);
  EXPECT_TRUE(member.hear(Path::kTree).new_path);
  EXPECT_FALSE(member.hear(Path::kTree).new_path) << "once";
  member.hear(Path::kTree, StatusMessage{.code = StatusCode::kUnknownJob, .about = RankSet::of(0)});
  EXPECT_FALSE(member.hear(Path::kTree).new_path) << "about another rank";
}

TEST(WorkerMembership, AStatusFailsOnlyTheRanksItConcerns) {
  constexpr std::uint64_t kOwn = WorkerScript::kNonce;
  struct Case {
    const char* name;
    StatusCode code;
    std::uint64_t nonce;
    Path path;
    bool pending;
    std::optional<FailureCode> failure;
  };
  using enum FailureCode;
  const Case cases[] = {
      {"a lost rank", StatusCode::kLeaseEnded, 0, Path::kTree, true, kRankLost},
      {"this rank's own JOIN came too late", StatusCode::kLeaseEnded, kOwn, Path::kStraight, true,
       kRankLost},
      {"a twin's JOIN came too late", StatusCode::kLeaseEnded, 99, Path::kTree, true, {}},
      {"a rank that left in the middle", StatusCode::kLeft, 0, Path::kTree, true, kRankLeft},
      {"a rank that left at the end", StatusCode::kLeft, 0, Path::kTree, false, {}},
      {"another life of the server", StatusCode::kServerRestarted, kOwn, Path::kTree, true,
       kServerRestarted},
      {"another life, told to a twin", StatusCode::kServerRestarted, 99, Path::kTree, true, {}},
      {"another life, without a nonce", StatusCode::kServerRestarted, 0, Path::kTree, true, {}},
      {"refused straight", StatusCode::kRefused, kOwn, Path::kStraight, true, kRefused},
      {"taken, straight", StatusCode::kRankTaken, kOwn, Path::kStraight, true, kRankTaken},
      {"a twin is refused", StatusCode::kRefused, 99, Path::kStraight, true, {}},
      {"refused, without a nonce", StatusCode::kRefused, 0, Path::kStraight, true, {}},
      {"taken, without a nonce", StatusCode::kRankTaken, 0, Path::kStraight, true, {}},
      {"other versions are supported", StatusCode::kVersions, 0, Path::kTree, true, {}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    Member member;
    member.join();
    const MembershipChange change = member.hear(
        c.path, StatusMessage{.code = c.code, .nonce = c.nonce, .about = RankSet::of(2)},
        c.pending);
    ASSERT_EQ(change.failure.has_value(), c.failure.has_value());
    if (c.failure) {
      EXPECT_EQ(change.failure->code, *c.failure);
    }
  }
}

TEST(WorkerMembership, ARankThatLeftIsToldWhenItJoinsAgain) {
  constexpr std::uint64_t kOwn = WorkerScript::kNonce;
  const auto failure_of = [](std::uint64_t nonce) {
    Member again;
    const RankSet self = RankSet::of(again.config.rank);
    const StatusMessage left{.code = StatusCode::kLeft, .nonce = nonce, .about = self};
    return again.hear(Path::kStraight, left).failure;
  };
  ASSERT_TRUE(failure_of(kOwn));
  EXPECT_EQ(failure_of(kOwn)->code, FailureCode::kLeftBefore);
  EXPECT_FALSE(failure_of(99)) << "acknowledges the LEAVE of an earlier process";
}

TEST(WorkerMembership, AMemberThatIsRefusedThroughItsTreeDetaches) {
  Member member;
  member.join();
  const StatusMessage refused{.code = StatusCode::kRefused, .nonce = WorkerScript::kNonce};
  const MembershipChange change = member.hear(Path::kTree, refused);
  EXPECT_TRUE(change.new_path);
  EXPECT_FALSE(change.failure);

  Member newcomer;
  newcomer.run();
  EXPECT_TRUE(newcomer.hear(Path::kTree, refused).failure) << "it has no membership to keep";
}

TEST(WorkerMembership, RepeatsLeaveUntilAcknowledgedStraightTooInTheSecondHalfOfALease) {
  Member member;
  member.join();
  EXPECT_TRUE(member.membership.leave(member.now, member.config));
  const Instant half = member.now + member.membership.lease(member.config) / 2;
  bool straight = false;
  while (!straight) {
    member.run_to_timer();
    for (const auto& [to, direct] : member.sent(PacketType::kLeave)) straight |= direct;
  }
  EXPECT_GE(member.now, half);
  member.hear(Path::kStraight, StatusMessage{.code = StatusCode::kLeft, .nonce = 99});
  EXPECT_TRUE(member.news().empty()) << "another's";
  member.hear(Path::kStraight,
              StatusMessage{.code = StatusCode::kLeft, .nonce = WorkerScript::kNonce});
  EXPECT_EQ(member.news(), (std::vector{EventKind::kLeft}));
  EXPECT_EQ(member.membership.next_timeout(member.config), kNever);
}

TEST(WorkerMembership, AnUnansweredLeaveEndsWithTheLeaseAndOneWithoutAMembershipAtOnce) {
  Member member;
  member.join();
  const Instant left = member.now;
  member.membership.leave(member.now, member.config);
  while (member.news().empty()) member.run_to_timer();
  EXPECT_EQ(member.now, left + member.membership.lease(member.config));

  Member newcomer;
  EXPECT_FALSE(newcomer.membership.leave(newcomer.now, newcomer.config));
  EXPECT_TRUE(newcomer.membership.leaving());
  EXPECT_EQ(newcomer.membership.next_timeout(newcomer.config), kNever);
}

}  // namespace
}  // namespace atp
