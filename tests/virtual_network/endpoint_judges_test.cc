#include <gmock/gmock.h>

#include <functional>

#include "atp/sim/server_judge.h"
#include "atp/sim/worker_judge.h"

// The objections of the judges of worker and server to packets that no honest node sends.

namespace atp::sim {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using Bytes = std::vector<std::uint8_t>;

constexpr JobKey kJob{7, 8};
constexpr std::uint32_t kWmax = 4;
constexpr Endpoint kSwitch = Endpoint::ipv4(10, 0, 0, 1, 5501);
constexpr Endpoint kServer = Endpoint::ipv4(10, 0, 1, 1, 5500);
constexpr Endpoint kWorker = Endpoint::ipv4(10, 0, 2, 1, 7000);
constexpr Endpoint kOtherWorker = Endpoint::ipv4(10, 0, 2, 2, 7000);
constexpr Instant kStart{std::chrono::seconds(100)};

struct Of {
  std::uint64_t sequence = 0;
  unsigned flags = 0;
  std::uint32_t index = 512;
  std::uint32_t next_or_magnitude = 0;
  std::uint32_t operation = 77;
  RankSet ranks = RankSet::of(1);
  std::uint8_t hops = ATP_HOPS;
  std::uint8_t kind = ATP_KIND_SUM_FIXED;
  std::uint8_t part = 0;
};

Bytes packet(PacketType type, const Of& of) {
  atp_header h{};
  h.version = ATP_VERSION;
  h.type = static_cast<std::uint8_t>(type);
  h.flags = static_cast<std::uint8_t>(of.flags);
  h.bitmap_words = 1;
  h.job = kJob.job;
  h.incarnation = kJob.incarnation;
  h.value_count = type == PacketType::kGradient || type == PacketType::kParameter ? 1 : 0;
  h.sequence = of.sequence;
  h.aggregator_index = of.index;
  h.operation = of.operation;
  h.magnitude = type == PacketType::kGradient ? of.next_or_magnitude : 0;
  h.kind = of.kind;
  h.hops = of.hops;
  Bytes bytes(atp_packet_bytes(1, h.kind, h.value_count));
  write_packet_head(bytes.data(), h, of.ranks);
  if (type == PacketType::kParameter) {
    atp_store32(&bytes[ATP_AT_NEXT_INDEX], of.next_or_magnitude | of.part);
  }
  return bytes;
}

// Runs a node in front of its judge, and collects the judge's objections.
template <class Court>
struct Case {
  const char* name;
  std::function<void(Court&)> act;
  const char* objection;
};

template <class Court, std::size_t kCases>
void expect_objections(const Case<Court> (&cases)[kCases]) {
  for (const Case<Court>& c : cases) {
    Court court;
    c.act(court);
    EXPECT_THAT(court.violations(), Contains(HasSubstr(c.objection))) << c.name;
  }
}

class WorkerCourt {
 public:
  WorkerCourt() : judge_(config(), kWmax) {}

  void sends(const Of& of, const Endpoint& to = kSwitch) {
    Outbox out;
    out.send(to, packet(PacketType::kGradient, of));
    judge_.end_turn(now, attached, room_cuts, out);
  }
  void sends_the_first(std::uint64_t count) {
    for (std::uint64_t sequence = 0; sequence < count; ++sequence) sends({sequence});
  }
  void gets(PacketType type, const Of& of) { judge_.took(kSwitch, packet(type, of)); }
  // The answer to the oldest, and nothing is sent.
  void is_answered(std::uint64_t sequence, bool collided, std::uint8_t part = 0) {
    gets(PacketType::kParameter, {.sequence = sequence,
                                  .flags = collided ? 1U * ATP_FLAG_COLLISION : 0U,
                                  .next_or_magnitude = 512,
                                  .part = part});
    judge_.end_turn(now, attached, room_cuts, Outbox());
  }
  void is_attached_after(Duration time, bool now_attached) {
    now += time;
    attached = now_attached;
    judge_.end_turn(now, attached, room_cuts, Outbox());
  }

  const std::vector<std::string>& violations() const { return judge_.violations(); }
  Instant now = kStart;
  bool attached = true;
  std::uint64_t room_cuts = 0;  // as the worker counts them

 private:
  static WorkerConfig config() {
    WorkerConfig config;
    config.job = kJob;
    config.rank = 1;
    config.world_size = 4;
    config.route.push_back(kSwitch);
    config.route.push_back(kServer);
    config.overflow = OverflowPolicy::kProactive;
    return config;
  }

  WorkerJudge judge_;
};

constexpr Of kAnswerOfTheFirst{.next_or_magnitude = 1024};

TEST(WorkerJudge, AcceptsAnHonestWorker) {
  WorkerCourt court;
  court.sends_the_first(4);
  court.gets(PacketType::kParameter, {.kind = ATP_KIND_SUM_PLAIN});  // no answer to it
  court.sends({});
  court.gets(PacketType::kParameter, kAnswerOfTheFirst);
  court.sends({.sequence = 4, .index = 1024});
  court.gets(PacketType::kNack, {.sequence = 2, .flags = ATP_FLAG_FLOAT});
  court.sends({.sequence = 2, .flags = ATP_FLAG_FLOAT | ATP_FLAG_DIRECT}, kServer);
  court.gets(PacketType::kParameter, {.sequence = 1, .next_or_magnitude = 512});
  court.gets(PacketType::kNack, {.sequence = 5, .operation = 0});
  court.sends({.sequence = 5, .flags = ATP_FLAG_RESEND});
  court.is_attached_after(std::chrono::milliseconds(1), false);
  court.sends({.sequence = 3, .flags = ATP_FLAG_DIRECT}, kServer);
  court.is_attached_after(std::chrono::milliseconds(1), true);
  court.is_attached_after(std::chrono::milliseconds(1), false);
  court.is_attached_after(std::chrono::milliseconds(250), true);
  EXPECT_THAT(court.violations(), IsEmpty());
}

// Four are in flight when the first answer collides, so the room is four, until the part that the
// switches say halves it.
void fill_a_room_of_two(WorkerCourt& court) {
  court.sends_the_first(4);
  court.room_cuts = 1;
  court.is_answered(0, true, 8);
  court.is_answered(1, false, 4);
  court.is_answered(2, false);
}

TEST(WorkerJudge, AcceptsAWorkerThatKeepsToItsRoom) {
  WorkerCourt court;
  fill_a_room_of_two(court);
  court.sends({.sequence = 4});
  court.is_answered(3, false);
  court.sends({.sequence = 5});
  EXPECT_THAT(court.violations(), IsEmpty());
}

TEST(WorkerJudge, ObjectsToPacketsThatNoWorkerMaySend) {
  const Case<WorkerCourt> cases[] = {
      {"another rank's", [](WorkerCourt& c) { c.sends({.ranks = RankSet::of(2)}); }, "other ranks"},
      {"a hop too few is left", [](WorkerCourt& c) { c.sends({.hops = 15}); },
       "the wrong hop count"},
      {"to a stranger", [](WorkerCourt& c) { c.sends({}, kOtherWorker); }, "to a stranger"},
      {"floats without DIRECT", [](WorkerCourt& c) { c.sends({.flags = ATP_FLAG_FLOAT}); },
       "floats that may be merged"},
      {"plain while detached",
       [](WorkerCourt& c) {
         c.is_attached_after(std::chrono::milliseconds(1), false);
         c.sends({});
       },
       "while detached"},
      {"a fragment that was asked for, without RESEND",
       [](WorkerCourt& c) {
         c.gets(PacketType::kNack, {.sequence = 0});
         c.sends({});
       },
       "asked for, without RESEND"},
      {"integers where floats were asked for",
       [](WorkerCourt& c) {
         c.sends({});
         c.gets(PacketType::kNack, {.flags = ATP_FLAG_FLOAT});
         c.sends({});
       },
       "integers where floats"},
      {"a value that may overflow",
       [](WorkerCourt& c) { c.sends({.next_or_magnitude = 0x7fffffffU / 4 + 1}); }, "may overflow"},
      {"a window and one more", [](WorkerCourt& c) { c.sends_the_first(5); },
       "further ahead than Wmax"},
      {"a sequence is left out", [](WorkerCourt& c) { c.sends({.sequence = 1}); }, "out of order"},
      {"the index from before a collision",
       [](WorkerCourt& c) {
         c.sends_the_first(4);
         c.gets(PacketType::kParameter, kAnswerOfTheFirst);
         c.sends({.sequence = 4});
       },
       "whose index is not the one"},
      {"an answered fragment again",
       [](WorkerCourt& c) {
         c.sends_the_first(2);
         c.gets(PacketType::kParameter, {});
         c.sends({});
       },
       "a repeat of an answered fragment"},
      {"another operation",
       [](WorkerCourt& c) {
         c.sends({});
         c.sends({.operation = 78});
       },
       "a repeat as another operation"},
      {"more in flight than the room",
       [](WorkerCourt& c) {
         fill_a_room_of_two(c);
         c.sends({.sequence = 4});
         c.sends({.sequence = 5});
       },
       "without room for it"},
      {"the room is not cut by the first collision",
       [](WorkerCourt& c) {
         c.sends_the_first(4);
         c.is_answered(0, true);
       },
       "cut 0 times instead of 1"},
      {"the room is cut without a collision",
       [](WorkerCourt& c) {
         c.sends_the_first(4);
         c.room_cuts = 1;
         c.is_answered(0, false);
       },
       "cut 1 times instead of 0"},
      {"a rank returns a second time too soon",
       [](WorkerCourt& c) {
         for (const int wait : {1, 1, 1, 249}) {
           c.is_attached_after(std::chrono::milliseconds(wait), !c.attached);
         }
       },
       "before its time"},
  };
  expect_objections(cases);
}

class ServerCourt {
 public:
  ServerCourt() : judge_(config(), kServer, ATP_DEFAULT_SWITCH_PORT) {}

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

  JobCourt() : server_(config()), judge_(config(), kServer, ATP_DEFAULT_SWITCH_PORT) {}

  // Both ranks join, one after the other, on both paths.
  void begin() {
    for (const Rank rank : {Rank{0}, Rank{1}}) {
      const std::uint64_t nonce = 100U + rank;
      take({.rank = rank, .nonce = nonce});
      take({.rank = rank, .nonce = nonce, .straight = true});
    }
    take({.nonce = 100});
  }
  void take(const Said& said) {
    Outbox out;
    const Bytes bytes = join(said);
    server_.handle_packet(now, home(said), kServer, bytes, out);
    judge_.end_turn(now, home(said), bytes, server_, out);
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
  static Bytes join(const Said& said) {
    Join body{.nonce = said.nonce, .server_boot_id = said.boot_id, .world_size = 2};
    body.stream_count = 1;
    body.max_value_count = 1;
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
}  // namespace atp::sim
