#include <array>

#include "tests/virtual_network/scenario.h"

// Somebody has captured a packet of a job and sends it again, unchanged and from its sender's
// address: to other nodes, to other ranks, and later to its own receiver (docs/inside/protocol §9,
// *Captured packets*). A key prevents none of that, since the tag is right. Two racks of two ranks,
// with a switch each, under a third.

namespace atp::sim {
namespace {

enum class At { kRank2, kRack, kSpine, kServer };

// Of which of rank 2's sockets a packet is.
enum class Socket { kNone, kEarlier, kOwn };

struct Row {
  const char* name;
  PacketType type;
  At from;
  At to;
  std::optional<StatusCode> code = std::nullopt;
  // Each copy that its own receiver gets may cost this many packets, and any other copy two.
  std::size_t most_packets = 2;
  // If given, the packet is made here, as it was sent before the job's ranks were all members, or
  // by an earlier socket of the rank: its code, and whose nonce it has.
  std::optional<Socket> made = std::nullopt;
  bool may_detach = false;
};

const Row kRows[] = {
    {"a rank's JOIN", PacketType::kJoin, At::kRank2, At::kRack, {}, 8},
    {"a JOIN that a switch has passed on", PacketType::kJoin, At::kRack, At::kSpine, {}, 8},
    {"the last switch's JOIN", PacketType::kJoin, At::kSpine, At::kServer, {}, 8},
    {"a straight JOIN", PacketType::kJoin, At::kRank2, At::kServer, {}, 8},
    {"a JOIN_ACK to a switch", PacketType::kJoinAck, At::kServer, At::kSpine, {}, 4},
    {"a JOIN_ACK to a rank", PacketType::kJoinAck, At::kRack, At::kRank2},
    {"a straight JOIN_ACK", PacketType::kJoinAck, At::kServer, At::kRank2},
    {"a rank's GRADIENT", PacketType::kGradient, At::kRank2, At::kRack, {}, 8},
    {"a sum", PacketType::kGradient, At::kRack, At::kSpine, {}, 12},
    {"the last switch's sum", PacketType::kGradient, At::kSpine, At::kServer, {}, 12},
    {"a PARAMETER to a switch", PacketType::kParameter, At::kServer, At::kSpine, {}, 8},
    {"a PARAMETER to a rank", PacketType::kParameter, At::kRack, At::kRank2},
    {"a FLUSH", PacketType::kFlush, At::kServer, At::kSpine, {}, 8},
    {"a NACK", PacketType::kNack, At::kServer, At::kSpine, {}, 8},
    {"waiting for", PacketType::kStatus, At::kServer, At::kSpine, StatusCode::kWaitingFor, 8},
    {"operation", PacketType::kStatus, At::kRank2, At::kServer, StatusCode::kOperation},
    {"an earlier socket's LEAVE",
     PacketType::kLeave,
     At::kRank2,
     At::kRack,
     {},
     2,
     Socket::kEarlier},
    {"one that a switch has passed on",
     PacketType::kLeave,
     At::kSpine,
     At::kServer,
     {},
     2,
     Socket::kEarlier},
    {"one that went straight",
     PacketType::kLeave,
     At::kRank2,
     At::kServer,
     {},
     2,
     Socket::kEarlier},
    {"operation mismatch about a fragment that is complete", PacketType::kStatus, At::kServer,
     At::kSpine, StatusCode::kOperationMismatch, 8, Socket::kNone},
    {"rank taken, to an earlier socket", PacketType::kStatus, At::kServer, At::kSpine,
     StatusCode::kRankTaken, 8, Socket::kEarlier},
    {"rank taken, to the rank's own", PacketType::kStatus, At::kRack, At::kRank2,
     StatusCode::kRankTaken, 60, Socket::kOwn, true},
    // The rank joins again, and sends everything that is outstanding once more.
    {"unknown job", PacketType::kStatus, At::kRack, At::kRank2, StatusCode::kUnknownJob, 60,
     Socket::kNone},
    {"versions", PacketType::kStatus, At::kRack, At::kRank2, StatusCode::kVersions, 2,
     Socket::kNone},
    {"refused, to an earlier socket", PacketType::kStatus, At::kServer, At::kSpine,
     StatusCode::kRefused, 8, Socket::kEarlier},
    {"refused, to the rank's own, through its tree", PacketType::kStatus, At::kServer, At::kSpine,
     StatusCode::kRefused, 60, Socket::kOwn, true},
    {"lease ended, to an earlier socket", PacketType::kStatus, At::kServer, At::kSpine,
     StatusCode::kLeaseEnded, 8, Socket::kEarlier},
    {"detached, with the known number", PacketType::kStatus, At::kServer, At::kSpine,
     StatusCode::kDetached, 8, Socket::kNone},
    {"server restarted, to an earlier socket", PacketType::kStatus, At::kServer, At::kSpine,
     StatusCode::kServerRestarted, 8, Socket::kEarlier},
    {"left, to an earlier socket", PacketType::kStatus, At::kServer, At::kSpine, StatusCode::kLeft,
     8, Socket::kEarlier},
    {"are you there", PacketType::kStatus, At::kRank2, At::kRack, StatusCode::kAreYouThere, 2,
     Socket::kOwn},
    {"here", PacketType::kStatus, At::kRack, At::kRank2, StatusCode::kHere, 2, Socket::kOwn},
};

class Captured {
 public:
  explicit Captured(const Row& row) : row_(row), world_(plan()) {
    world_.set_tap([this](const Packet& packet) -> Verdict {
      if (is_it(packet)) captured_ = packet;
      const bool is_stalled = stall_ && is(packet, PacketType::kGradient) &&
                              packet.from == world_.endpoint(world_.worker_host(3));
      return {.drop = is_stalled};
    });
    // What happens seldom: a rank falls behind, and its switch forgets everything.
    world_.run_for(milliseconds(300));
    stall_ = true;
    world_.run_for(milliseconds(2500));
    stall_ = false;
    world_.restart_switch(1);
    world_.run_for(milliseconds(700));
    is_frozen_ = true;
    if (row.made) make(*row.made);
  }

  bool has_packet() const { return captured_.has_value(); }

  void send_to_all() {
    const std::uint64_t calm = packets_in(milliseconds(400));
    std::size_t budget = 0;
    for (int round = 0; round < 5; ++round) {
      for (HostId host = 0; host < world_.host_count(); ++host) {
        const Endpoint& to = world_.endpoint(host);
        if (to == captured_->from) continue;
        budget += to == captured_->to ? row_.most_packets : 2;
        world_.at(world_.now() + milliseconds(10 * (round * 8 + static_cast<int>(host))),
                  [this, to] { world_.inject(captured_->from, to, captured_->bytes); });
      }
    }
    const std::uint64_t busy = packets_in(milliseconds(400));
    EXPECT_LE(busy, calm + calm / 4 + budget);
    if (!row_.may_detach) expect_ranks_in_their_places();
    for (const Rank rank : {0, 1, 2, 3}) {
      const bool may_detach = row_.may_detach && rank == 2;
      EXPECT_TRUE(may_detach || world_.application(rank).detached() == detached_[rank])
          << "rank " << rank;
      EXPECT_FALSE(world_.application(rank).failed()) << "rank " << rank;
    }
    EXPECT_TRUE(world_.run_to_completion()) << world_.unfinished();
    EXPECT_THAT(world_.violations(), testing::IsEmpty());
  }

 private:
  void make(Socket socket) {
    const Plan& plan = world_.plan();
    const RankSet rank = RankSet::of(2);
    const std::uint64_t own = plan.nonce(plan.jobs[0], 2);
    const std::uint64_t nonce = socket == Socket::kNone  ? 0
                                : socket == Socket::kOwn ? own
                                                         : own + 1;
    const bool is_straight = row_.from == At::kRank2 && row_.to == At::kServer;
    const ControlHead head{.type = row_.type,
                           .flags = static_cast<std::uint8_t>(is_straight ? ATP_FLAG_DIRECT : 0),
                           .job = plan.jobs[0].key,
                           .stream = plan.jobs[0].first_stream};
    Outbox out;
    if (row_.type == PacketType::kLeave) {
      put_leave(out, head, rank, {.nonce = nonce});
    } else {
      StatusMessage status;
      status.code = *row_.code;
      status.nonce = nonce;
      status.about = rank;
      if (status.code == StatusCode::kOperationMismatch) status.other = RankSet::of(3);
      if (status.code == StatusCode::kVersions) status.reason = versions_number(2, 3);
      if (status.code == StatusCode::kRefused) {
        status = StatusMessage::refused({RefusalReason::kTooManyJobs, 1, 0}, rank, nonce);
      }
      put_status(out, head, rank, status);
    }
    out.send_to(endpoint(row_.to));
    const auto bytes = out.bytes_of(out.packets()[0]);
    captured_ = Packet{.from = endpoint(row_.from),
                       .to = endpoint(row_.to),
                       .bytes = {bytes.begin(), bytes.end()}};
  }
  static Plan plan() {
    Plan plan = steady_plan(4, 1200, 40, milliseconds(5));
    plan.switches = 3;
    plan.jobs[0].parent = {0, 0, 1, 1};
    plan.jobs[0].uplink = {2, 2, -1};
    plan.watched = true;
    return plan;
  }
  const Endpoint& endpoint(At at) const {
    switch (at) {
      case At::kRank2: return world_.endpoint(world_.worker_host(2));
      case At::kRack: return world_.endpoint(world_.switch_host(1));
      case At::kSpine: return world_.endpoint(world_.switch_host(2));
      case At::kServer: return world_.endpoint(world_.server_host());
    }
    return world_.endpoint(0);
  }
  bool is_it(const Packet& packet) const {
    if (is_frozen_ || !is(packet, row_.type)) return false;
    if (packet.from != endpoint(row_.from) || packet.to != endpoint(row_.to)) return false;
    const auto status = status_of(packet);
    return !row_.code || (status && status->code == *row_.code);
  }
  std::uint64_t packets_in(Duration time) {
    const std::uint64_t before = world_.packets_sent();
    for (const Rank rank : {0, 1, 2, 3}) detached_[rank] = world_.application(rank).detached();
    world_.run_for(time);
    return world_.packets_sent() - before;
  }
  // Each switch knows the ranks below it, and no others.
  void expect_ranks_in_their_places() {
    const RankSet below[] = {RankSet::first(2), RankSet::first(4) - RankSet::first(2),
                             RankSet::first(4)};
    for (std::uint32_t index = 0; index < 3; ++index) {
      world_.switch_node(index).for_each_tree([&](const Tree& tree, const atp_share&) {
        EXPECT_EQ(tree.membership().attached(), below[index]) << "switch " << index;
      });
    }
  }

  const Row& row_;
  World world_;
  std::optional<Packet> captured_;
  std::array<std::uint32_t, 4> detached_{};
  bool stall_ = false;
  bool is_frozen_ = false;
};

TEST(CapturedPackets, DoNoHarmWhereverAndWheneverTheyAreSentAgain) {
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.name);
    Captured captured(row);
    ASSERT_TRUE(captured.has_packet());
    captured.send_to_all();
  }
}

}  // namespace
}  // namespace atp::sim
