#include "atp/sim/server_judge.h"

#include <gmock/gmock.h>

#include <optional>

#include "atp/core/topology/proof.h"
#include "tests/virtual_network/judged_packets.h"

// The objections of the judge of a server to packets that no honest one sends.

namespace atp::sim::judged {
namespace {

using testing::IsEmpty;

class ServerCourt {
 public:
  ServerCourt() : judge_(config(), kServer, ATP_DEFAULT_SWITCH_PORT) {
    for (const Endpoint& each : {kSwitch, kWorker}) proves_itself(each);
  }

  // The server answers a GRADIENT of rank 1 from `from`.
  void answers(const Endpoint& from, PacketType type, const Of& of,
               const std::vector<Endpoint>& to) {
    Outbox out;
    const Bytes bytes = packet(type, of);
    std::copy(bytes.begin(), bytes.end(), out.reserve(bytes.size()).begin());
    for (const Endpoint& each : to) out.send_to(each);
    judge_.end_turn(now, from, packet(PacketType::kGradient, {.sequence = of.sequence}), server_,
                    out);
  }
  void completes(const Of& of) { answers(kSwitch, PacketType::kParameter, of, {kSwitch}); }
  void tells_that_all_are_in(const Endpoint& to) {
    Outbox out;
    const ControlHead head{.type = PacketType::kJoinAck, .flags = ATP_FLAG_DIRECT, .job = kJob};
    ASSERT_TRUE(put_join_ack(out, head, RankSet::of(1), JoinAck{.wmax = kWmax}));
    out.send_to(to);
    judge_.end_turn(now, to, {}, server_, out);
  }

  const std::vector<std::string>& violations() const { return judge_.violations(); }
  Instant now = kStart;

 private:
  static ServerConfig config() {
    ServerConfig config;
    config.wmax = kWmax;
    return config;
  }
  // The judge sees that it is asked for a proof, and shows it.
  void proves_itself(const Endpoint& from) {
    const std::uint64_t proof = from.port;
    Outbox asks;
    ASSERT_TRUE(put_status(asks, {.job = kJob}, RankSet::of(1),
                           StatusMessage::prove(proof, RankSet::of(1), kNonce)));
    asks.send_to(from);
    judge_.end_turn(now, from, join(0), server_, asks);
    judge_.end_turn(now, from, join(proof), server_, Outbox());
  }
  static Bytes join(std::uint64_t proof) {
    Join body{.nonce = kNonce, .world_size = 2, .stream_count = 1, .max_value_count = 1};
    body.proof = proof;
    Outbox out;
    EXPECT_TRUE(put_join(out, {.type = PacketType::kJoin, .job = kJob}, RankSet::of(1), body));
    out.send_to(kServer);
    const auto bytes = out.bytes_of(out.packets()[0]);
    return {bytes.begin(), bytes.end()};
  }
  static constexpr std::uint64_t kNonce = 100;

  ServerJudge judge_;
  Server server_{config()};
};

constexpr Of kResult{.next_or_magnitude = 512};
const std::uint32_t kNext = atp_fmix32(513) & 0xffffff00;
const Of kMoved{.flags = ATP_FLAG_COLLISION, .next_or_magnitude = kNext};

TEST(ServerJudge, AcceptsAnHonestServer) {
  ServerCourt court;
  court.tells_that_all_are_in(kWorker);
  court.completes(kMoved);
  court.now += std::chrono::milliseconds(1);
  court.answers(kWorker, PacketType::kParameter, kMoved, {kSwitch, kWorker});
  court.answers(kSwitch, PacketType::kNack, {.sequence = 4, .index = kNext}, {kSwitch});
  court.answers(kSwitch, PacketType::kFlush, {.sequence = 1}, {kSwitch});
  court.completes({.sequence = 4, .index = kNext, .next_or_magnitude = kNext});
  EXPECT_THAT(court.violations(), IsEmpty());
}

TEST(ServerJudge, ObjectsToPacketsThatNoServerMaySend) {
  const Case<ServerCourt> cases[] = {
      {"an index stays",
       [](ServerCourt& c) { c.completes({.flags = ATP_FLAG_COLLISION, .next_or_magnitude = 512}); },
       "stays after a collision"},
      {"an index moves", [](ServerCourt& c) { c.completes({.next_or_magnitude = 768}); },
       "moves by itself"},
      {"the server says a part",
       [](ServerCourt& c) { c.completes({.next_or_magnitude = 512, .part = 1}); }, "has a part"},
      {"a move is forgotten",
       [](ServerCourt& c) {
         c.completes(kMoved);
         c.answers(kSwitch, PacketType::kNack, {.sequence = 4}, {kSwitch});
       },
       "whose index is not the one"},
      {"a repeat with other contents",
       [](ServerCourt& c) {
         c.completes(kResult);
         c.now += std::chrono::milliseconds(1);
         c.completes(kMoved);
       },
       "differs from the earlier one"},
      {"a repeat comes at once",
       [](ServerCourt& c) {
         c.completes(kResult);
         c.completes(kResult);
       },
       "within its pause"},
      {"a straight request is answered through the tree",
       [](ServerCourt& c) {
         c.completes(kResult);
         c.now += std::chrono::milliseconds(1);
         c.answers(kWorker, PacketType::kParameter, kResult, {kSwitch});
       },
       "not answered straight"},
      {"a worker is flushed",
       [](ServerCourt& c) {
         c.tells_that_all_are_in(kWorker);
         c.answers(kSwitch, PacketType::kFlush, {}, {kSwitch, kWorker});
       },
       "a FLUSH to a worker"},
  };
  expect_objections(cases);
}

// A job of two ranks behind a switch: the server's input, and what the judge is told.
class JobCourt {
 public:
  struct Said {
    Rank rank = 0;
    std::uint64_t nonce = 100;
    std::uint32_t detachments = 0;
    bool detached = false;
    bool straight = false;
    std::uint64_t boot_id = 0;
  };

  JobCourt() : server_(config()), judge_(config(), kServer, ATP_DEFAULT_SWITCH_PORT) {
    take_unproven({});
    take_unproven({.straight = true});
    take_unproven({.rank = 1, .straight = true});
  }

  // Both ranks join, one after the other, on both paths.
  void begin() {
    for (const Rank rank : {Rank{0}, Rank{1}}) {
      const std::uint64_t nonce = 100U + rank;
      take({.rank = rank, .nonce = nonce});
      take({.rank = rank, .nonce = nonce, .straight = true});
    }
    take({.nonce = 100});
  }
  void take(const Said& said) { take(said, proof(said)); }
  // The judge is told that the JOIN had this proof.
  void take(const Said& said, std::uint64_t told) {
    Outbox out;
    server_.handle_packet(now, home(said), kServer, join(said), out);
    judge_.end_turn(now, home(said), join(said, told), server_, out);
  }
  void tell(const Endpoint& whom) {
    Outbox out;
    ASSERT_TRUE(put_status(out, {.job = kJob}, RankSet::first(2), StatusMessage{}));
    out.send_to(whom);
    judge_.end_turn(now, {}, {}, server_, out);
  }
  // The server asks for a proof. The judge is told that the JOIN had this one.
  void take_unproven(const Said& said, std::optional<std::uint64_t> told = {},
                     std::optional<Endpoint> answered = {}) {
    Outbox out;
    server_.handle_packet(now, home(said), kServer, join(said, 0), out);
    Outbox answer;
    for (const OutPacket& sent : out.packets()) {
      answer.send(answered.value_or(sent.to), out.bytes_of(sent));
    }
    judge_.end_turn(now, home(said), join(said, told.value_or(0)), server_, answer);
  }
  static std::uint64_t proof(const Said& said) {
    return proof_of(config().secret, kJob, home(said));
  }
  // The judge is told that the server took the JOIN, although it did not get it.
  void hear_of(const Said& said) {
    Outbox out;
    JoinAck ack{.nonce = said.nonce, .wmax = kWmax, .value_count = 1, .world_size = 2};
    ack.server_boot_id = 1;
    ack.lease_ms = 5000;
    ack.stream_count = 1;
    const ControlHead head{.type = PacketType::kJoinAck, .job = kJob};
    ASSERT_TRUE(put_join_ack(out, head, RankSet::of(said.rank), ack));
    out.send_to(home(said));
    judge_.end_turn(now, home(said), join(said), server_, out);
  }
  // The judge is told that this JOIN made the job, although another one did.
  void take_for_another(const Said& said, const Said& told) {
    Outbox out;
    server_.handle_packet(now, home(said), kServer, join(said), out);
    judge_.end_turn(now, home(said), join(told), server_, out);
  }
  void leave(Rank rank) {
    Outbox out;
    const ControlHead head{.type = PacketType::kLeave, .job = kJob};
    ASSERT_TRUE(put_leave(out, head, RankSet::of(rank), Leave{100U + rank, {}}));
    out.send_to(kServer);
    const auto leaving = out.bytes_of(out.packets()[0]);
    Outbox answer;
    server_.handle_packet(now, kSwitch, kServer, leaving, answer);
    judge_.end_turn(now, kSwitch, leaving, server_, answer);
  }
  // Runs until the leases of all but rank 0 have ended.
  void let_a_lease_end(bool and_say_so) {
    for (int second = 0; second < 6; ++second) {
      now += std::chrono::seconds(1);
      take({});
      Outbox out;
      server_.handle_timeout(now, out);
      judge_.end_turn(now, {}, {}, server_, and_say_so ? out : Outbox());
    }
  }

  // The server correctly loses a rank, but the judge is told that the server was always stopped.
  void stand_still_and_end_a_lease() {
    for (int second = 0; second < 6; ++second) {
      now += std::chrono::seconds(1);
      Outbox out;
      server_.handle_packet(now, kSwitch, kServer, join({}), out);
      out.clear();
      server_.handle_timeout(now, out);
      if (second == 5) judge_.end_turn(now, {}, {}, server_, out);
    }
  }

  const std::vector<std::string>& violations() const { return judge_.violations(); }
  Instant now = kStart;

 private:
  static ServerConfig config() {
    ServerConfig config;
    config.wmax = kWmax;
    config.max_value_count = 1;
    return config;
  }
  static Endpoint home(const Said& said) {
    if (!said.straight) return kSwitch;
    return said.rank == 0 ? kWorker : kOtherWorker;
  }
  static Bytes join(const Said& said) { return join(said, proof(said)); }
  static Bytes join(const Said& said, std::uint64_t proof) {
    Join body{.nonce = said.nonce, .server_boot_id = said.boot_id, .world_size = 2};
    body.stream_count = 1;
    body.max_value_count = 1;
    body.proof = proof;
    body.detached = said.detached;
    body.detachments = said.detachments;
    body.remaining.push_back(kServer);
    if (!said.straight) body.recorded.push_back(kSwitch);
    const std::uint8_t flags = said.straight ? ATP_FLAG_DIRECT : 0;
    Outbox out;
    EXPECT_TRUE(put_join(out, {.type = PacketType::kJoin, .flags = flags, .job = kJob},
                         RankSet::of(said.rank), body));
    out.send_to(kServer);
    const auto bytes = out.bytes_of(out.packets()[0]);
    return {bytes.begin(), bytes.end()};
  }

  Server server_;
  ServerJudge judge_;
};

TEST(ServerJudge, AcceptsAServerThatHandlesItsRanksCorrectly) {
  JobCourt court;
  court.begin();
  court.take({.nonce = 5});  // a twin
  court.take({.rank = 1, .nonce = 101, .detachments = 1, .detached = true, .straight = true});
  court.take({.rank = 1, .nonce = 101});  // late
  court.leave(0);
  court.take({.nonce = 100});
  court.let_a_lease_end(true);
  EXPECT_THAT(court.violations(), IsEmpty());
}

TEST(ServerJudge, ObjectsToRanksThatMayNotJoinAndToMissingAnnouncements) {
  const JobCourt::Said detached{
      .rank = 1, .nonce = 101, .detachments = 1, .detached = true, .straight = true};
  const Case<JobCourt> cases[] = {
      {"a twin",
       [](JobCourt& c) {
         c.begin();
         c.hear_of({.nonce = 5});
       },
       "a rank that another socket holds"},
      {"a job of a sender that has proven nothing",
       [](JobCourt& c) {
         c.take_unproven({}, 5);
         c.take({}, 5);
       },
       "a JOIN without a right proof made a job"},
      {"a JOIN with a wrong proof counts", [](JobCourt& c) { c.take({}, 5); },
       "a JOIN without a right proof counted"},
      {"a JOIN with a right proof does not",
       [](JobCourt& c) { c.take_unproven({}, JobCourt::proof({})); },
       "a JOIN with a right proof was answered with *prove*"},
      {"*prove* goes to another", [](JobCourt& c) { c.take_unproven({}, 0, kOtherWorker); },
       "*prove* did not answer its JOIN"},
      {"an announcement to a sender that has proven nothing", [](JobCourt& c) { c.tell(kServer); },
       "a packet went to an address that has not proven itself"},
      {"a rank that has left",
       [](JobCourt& c) {
         c.begin();
         c.leave(0);
         c.hear_of({.nonce = 100});
       },
       "a rank that is gone came back"},
      {"a rank reported as detached that is not",
       [&](JobCourt& c) {
         c.begin();
         c.hear_of(detached);
       },
       "an older JOIN attached a rank"},
      {"switches that were not told",
       [&](JobCourt& c) {
         c.begin();
         c.hear_of(detached);
       },
       "switches were not told at once"},
      {"a job for a member of another", [](JobCourt& c) { c.take_for_another({}, {.boot_id = 9}); },
       "a member's JOIN made a job"},
      {"a rank lost by a server that was stopped",
       [](JobCourt& c) {
         c.begin();
         c.stand_still_and_end_a_lease();
       },
       "by a server that was stopped"},
      {"a lost rank that was not announced",
       [](JobCourt& c) {
         c.begin();
         c.let_a_lease_end(false);
       },
       "the other ranks were not notified of a lost rank"},
  };
  expect_objections(cases);
}

}  // namespace
}  // namespace atp::sim::judged
