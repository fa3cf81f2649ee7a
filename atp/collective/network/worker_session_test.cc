#include "atp/collective/network/worker_session.h"

#include <gtest/gtest.h>

namespace atp {
namespace {

using namespace std::chrono_literals;

const Endpoint kServer = Endpoint::ipv4(10, 0, 0, 9, 5500);

WorkerConfig alone_at_the_server() {
  WorkerConfig config;
  config.job = {1, 2};
  config.nonce = 77;
  config.route.push_back(kServer);
  return config;
}

JoinAck agreement(std::uint32_t lease_ms) {
  JoinAck ack;
  ack.nonce = 77;
  ack.scale = 1;
  ack.lease_ms = lease_ms;
  ack.wmax = 4;
  ack.value_count = 4;
  ack.world_size = 1;
  ack.stream_count = 1;
  return ack;
}

void join(WorkerSession& session, Instant now, const JoinAck& ack) {
  Outbox message;
  put_join_ack(message, {.type = PacketType::kJoinAck, .job = {1, 2}}, RankSet::of(0), ack);
  message.send_to(kServer);
  Outbox out;
  session.worker().start(now);
  session.worker().handle_packet(now, kServer, message.bytes_of(message.packets()[0]),
                                 session.tensors(), out);
  session.on_round(now);
}

TEST(WorkerSession, NamesTheLeaseGrantedByTheServer) {
  const Instant begin{1h};
  WorkerSession session(alone_at_the_server(), {.route = {kServer}}, [](const std::string&) {});
  join(session, begin, agreement(1500));
  ASSERT_EQ(session.phase(), SessionPhase::kJoined);
  Outbox out;
  session.worker().handle_timeout(begin + 1500ms, session.tensors(), out);
  session.on_round(begin + 1500ms);
  EXPECT_EQ(session.failure().value_or(""),
            "server 10.0.0.9:5500 does not answer (silent for 1.5 s): is `atp server` running "
            "there?");
  EXPECT_TRUE(session.has_left()) << "no server could acknowledge its LEAVE";
}

TEST(WorkerSession, LeavesAJobWhoseFragmentsAreTooLargeForThePath) {
  const Instant begin{1h};
  WorkerSession session(alone_at_the_server(), {.route = {kServer}}, [](const std::string&) {});
  join(session, begin, agreement(5000));  // K = 4: packets of 92 bytes
  auto operation = std::make_shared<PendingOperation>(
      OperationName{}, CollectiveRequest{.timeout = 20s}, BlockLayout(), NumberFormat::kFixed);
  Endpoint host = kServer;
  host.port = 0;

  session.handle_too_big(begin, Endpoint::ipv4(10, 0, 0, 8, 0), 80);
  session.handle_too_big(begin, host, 92);
  EXPECT_FALSE(session.failure()) << "another path, or a large enough MTU";
  EXPECT_EQ(session.failure_kind(), FailureKind::kNone);

  session.handle_too_big(begin, host, 91);
  EXPECT_EQ(session.failure().value_or(""),
            "the path from rank 0 to server 10.0.0.9:5500 carries packets of at most 91 bytes "
            "(MTU), and a fragment of 4 values makes one of 92: raise the path's MTU");
  EXPECT_EQ(session.failure_kind(), FailureKind::kBroken);
  session.submit(operation);
  session.on_round(begin);
  const auto ended = session.take_ended();
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_EQ(ended[0].operation, operation);
  EXPECT_FALSE(ended[0].result.ok()) << "later operations fail with the same cause";
}

TEST(WorkerSession, SaysOnceForWhomItWaitsWhenItJoins) {
  const Instant begin{1h};
  std::vector<std::string> said;
  WorkerSession session(alone_at_the_server(), {.route = {kServer}},
                        [&](const std::string& text) { said.push_back(text); });
  session.worker().start(begin);
  for (const auto after : {0ms, 1900ms, 2000ms, 3000ms}) session.on_round(begin + after);
  EXPECT_EQ(said, std::vector<std::string>{"waiting for 2 s: no answer from server 10.0.0.9:5500"});
}

TEST(WorkerSession, SaysOnceForWhomItWaitsWhenItLeaves) {
  const Instant begin{1h};
  std::vector<std::string> said;
  WorkerSession session(alone_at_the_server(), {.route = {kServer}},
                        [&](const std::string& text) { said.push_back(text); });
  join(session, begin, agreement(5000));
  session.leave(begin, "it is done", true);
  for (const auto after : {900ms, 1000ms, 3000ms}) session.on_round(begin + after);
  EXPECT_EQ(said, std::vector<std::string>{"waiting for 1 s: server 10.0.0.9:5500 has not "
                                           "acknowledged that this rank leaves"});
}

TEST(WorkerSession, NeverBeginsAnOperationWhoseTimeIsUp) {
  const Instant begin{1h};
  WorkerSession session(alone_at_the_server(), {.route = {kServer}}, [](const std::string&) {});
  join(session, begin, agreement(5000));
  session.submit(std::make_shared<PendingOperation>(OperationName{},
                                                    CollectiveRequest{.timeout = 2s, .spent = 2s},
                                                    BlockLayout(), NumberFormat::kFixed));
  session.on_round(begin);
  const auto ended = session.take_ended();
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_FALSE(ended[0].result.ok());
  EXPECT_EQ(session.failure_kind(), FailureKind::kTimeout);
  EXPECT_EQ(session.failure().value_or(""),
            "not ended within its timeout of 2 s: rank 0 needed all of it to copy or convert its "
            "tensors, before the operation could begin; give the group a longer timeout, or use "
            "smaller tensors");
}

// A lease that ends would be reported as the loss of a rank.
TEST(WorkerSession, LeavesAtOnceAfterAMismatch) {
  const Instant begin{1h};
  WorkerConfig config = alone_at_the_server();
  config.world_size = 3;
  JoinAck ack = agreement(5000);
  ack.world_size = 3;
  const struct {
    const char* name;
    bool mismatch;
    std::size_t leaves;
  } rows[] = {{"a rank is lost", false, 0}, {"it is lost because of a mismatch", true, 1}};
  for (const auto& row : rows) {
    SCOPED_TRACE(row.name);
    WorkerSession session(config, {.world_size = 3, .route = {kServer}}, [](const std::string&) {});
    join(session, begin, ack);
    Outbox out;
    const auto tell = [&](const StatusMessage& status, std::uint32_t operation) {
      Outbox message;
      put_status(message, {.type = PacketType::kStatus, .job = {1, 2}, .operation = operation},
                 RankSet::of(0), status);
      message.send_to(kServer);
      session.worker().handle_packet(begin, kServer, message.bytes_of(message.packets()[0]),
                                     session.tensors(), out);
    };
    if (row.mismatch) {
      tell({.code = StatusCode::kOperationMismatch,
            .about = RankSet::of(1),
            .other = RankSet::of(2)},
           7);
    }
    tell({.code = StatusCode::kLeaseEnded, .about = RankSet::of(1)}, 0);
    session.on_round(begin);
    EXPECT_EQ(session.phase(), SessionPhase::kFailed);
    out.clear();
    session.worker().handle_timeout(begin, session.tensors(), out);
    std::size_t leaves = 0;
    for (const OutPacket& packet : out.packets()) {
      leaves += parse_packet(out.bytes_of(packet)).view().type() == PacketType::kLeave ? 1 : 0;
    }
    EXPECT_EQ(leaves, row.leaves);
  }
}

}  // namespace
}  // namespace atp
