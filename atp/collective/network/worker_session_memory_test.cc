#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "atp/collective/network/worker_session.h"
#include "atp/collective/testing/no_memory.h"
#include "atp/collective/waits/read_clock.h"

namespace atp::testing {
namespace {

const Endpoint kServer = Endpoint::ipv4(10, 0, 0, 9, 5500);
constexpr Instant kNow{std::chrono::hours(1)};

// A session in a job of two ranks, driven as a lane drives it.
class Driven {
 public:
  Driven() : session_(config(), {.world_size = 2, .route = {kServer}}, nullptr) {
    JoinAck ack;
    ack.nonce = 77;
    ack.scale = 1;
    ack.lease_ms = 5000;
    ack.wmax = 4;
    ack.value_count = 4;
    ack.world_size = 2;
    ack.stream_count = 2;
    Outbox message;
    put_join_ack(message, {.type = PacketType::kJoinAck, .job = {1, 2}}, RankSet::of(0), ack);
    message.send_to(kServer);
    session_.worker().start(kNow);
    session_.worker().handle_packet(kNow, kServer, message.bytes_of(message.packets()[0]),
                                    session_.tensors(), out_);
    session_.on_round(kNow);
    out_.clear();
  }

  void submit(std::shared_ptr<PendingOperation> operation, SteadyTime /*now*/) {
    session_.submit(std::move(operation));
  }
  void work(const ReadClock& /*clock*/, int /*ready*/) {
    session_.on_round(kNow);
    session_.worker().poll_transmit(kNow, session_.tensors(), out_);
    session_.tensors().exponents(0);  // as the answer with them does
  }
  void stop(const std::string& why) {
    session_.give_up(kNow, why);
    out_.clear();
    session_.worker().handle_timeout(kNow, session_.tensors(), out_);
  }
  std::vector<EndedOperation<PendingOperation>> take_ended() { return session_.take_ended(); }

  const WorkerSession& session() const { return session_; }
  // Whether a packet that it has sent since it stopped has this text.
  bool has_sent(std::string_view text) const {
    return std::any_of(out_.packets().begin(), out_.packets().end(), [&](const OutPacket& packet) {
      const auto bytes = out_.bytes_of(packet);
      return std::search(bytes.begin(), bytes.end(), text.begin(), text.end()) != bytes.end();
    });
  }

 private:
  static WorkerConfig config() {
    WorkerConfig config;
    config.job = {1, 2};
    config.nonce = 77;
    config.world_size = 2;
    config.stream_count = 2;
    config.route.push_back(kServer);
    return config;
  }

  WorkerSession session_;
  Outbox out_;
};

TEST(WorkerSession, EndsAnOperationOnceIfThereIsNoMemoryForItAndTellsTheOthers) {
  std::vector<float> values(5000, 1);
  int failures = 0;
  for (bool fails = true; fails; failures += fails) {
    Driven driven;
    ASSERT_EQ(driven.session().phase(), SessionPhase::kJoined);
    const auto operation = std::make_shared<PendingOperation>(
        OperationName{0, values.size()},
        CollectiveRequest{.kind = ElementKind::kFloat32,
                          .outputs = {std::as_writable_bytes(std::span(values))},
                          .timeout = std::chrono::seconds(20)},
        BlockLayout(values.size()), NumberFormat::kBlocks);
    fails = lacks_memory(driven, operation, failures);
    EXPECT_EQ(driven.session().failure().value_or(""), "no memory");
    EXPECT_TRUE(driven.has_sent("no memory"));
  }
  EXPECT_GT(failures, 0) << "the exponents of its blocks need some";
}

}  // namespace
}  // namespace atp::testing
