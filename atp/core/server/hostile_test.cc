#include <gtest/gtest.h>

#include "atp/base/random.h"
#include "atp/core/server/server_harness.h"
#include "atp/core/testing_drops.h"

// Packets that no honest member sends: the server survives them, every sum stays right, and each
// dropped packet increments exactly one drop counter (docs/inside/protocol §7).

namespace atp {
namespace {

// Half are random bytes, half real packets with one to three bytes changed, from a stranger and
// from the switch, between the job's own packets.
TEST(Hostile, PacketsNeitherCrashTheServerNorChangeASum) {
  ServerHarness h = ServerHarness::behind_switch(4);
  Random random(17);
  std::uint64_t completed = 0;
  for (std::uint64_t s = 0; s < 300; ++s) {
    for (int i = 0; i < 200; ++i) {
      std::vector<std::uint8_t> bytes = bytes_of({.sequence = s, .ranks = ranks({0, 1})});
      if (random.chance(0.5)) {
        bytes.resize(random.below(100));
        for (auto& b : bytes) b = static_cast<std::uint8_t>(random.next());
        if (!bytes.empty() && random.chance(0.7)) bytes[0] = ATP_VERSION;
      } else {
        for (std::uint64_t n = 1 + random.below(3); n > 0; --n) {
          bytes[random.below(bytes.size())] = static_cast<std::uint8_t>(random.next());
        }
      }
      h.receive(kStranger, bytes);
      // From a member's address, with fields that no honest member would send.
      TestGradient g{.sequence = s + 100 + random.below(1'000'000), .ranks = ranks({0})};
      if (random.chance(0.3)) g.ranks.set_word(0, random.next() | 16);
      if (random.chance(0.3)) g.job.incarnation = 1;
      if (random.chance(0.3)) g.values.resize(1 + random.below(50));
      h.gradient(kTestSwitch, g);
    }
    h.out.clear();
    h.gradient(kTestSwitch, {.sequence = s, .ranks = ranks({0, 1, 2}), .values = {7, 8}});
    h.gradient(worker_endpoint(3), {.sequence = s, .ranks = ranks({3}), .values = {1, 1}});
    for (const Sent& sent : h.take(PacketType::kParameter)) {
      EXPECT_EQ(sent.values(), (std::vector<std::int32_t>{8, 9}));
      EXPECT_EQ(sent.header.sequence, s);
      ++completed;
    }
  }
  EXPECT_EQ(completed, 300u);
  EXPECT_EQ(h.count(ServerCounter::kFragmentsCompleted), 300u);

  EXPECT_EQ(drops_in(h.server.counters()) + 600 + h.count(ServerCounter::kJoins) +
                h.count(ServerCounter::kLeaves) - h.count(ServerCounter::kDropBadBody) -
                h.count(ServerCounter::kDropBadRank),
            h.count(ServerCounter::kPacketsReceived))
      << "each under exactly one name";
}

// JOINs and LEAVEs with changed bodies, but never with a member's nonce, from strangers, from the
// switch and from the members' own addresses.
std::vector<std::uint8_t> forged_control(const ServerHarness& h, Random& random) {
  Outbox out(1, 2000);
  const auto rank = static_cast<Rank>(random.below(5));
  const bool leaving = random.chance(0.3);
  ControlHead head;
  head.type = leaving ? PacketType::kLeave : PacketType::kJoin;
  head.flags = random.chance(0.5) ? ATP_FLAG_DIRECT : 0;
  head.job = kTestJob;
  const Join join = h.join_of(rank, 4, random.chance(0.5)).body;
  leaving ? put_leave(out, head, RankSet::of(rank), Leave{})
          : put_join(out, head, RankSet::of(rank), join);
  out.send_to(kStranger);
  const auto written = out.bytes_of(out.packets()[0]);
  std::vector<std::uint8_t> bytes(written.begin(), written.end());
  for (std::uint64_t n = random.below(4); n > 0; --n) {
    const std::size_t at = ATP_AT_BITMAP + random.below(bytes.size() - ATP_AT_BITMAP);
    bytes[at] = static_cast<std::uint8_t>(random.chance(0.5) ? random.next() : random.below(3));
  }
  atp_store64(bytes.data() + atp_body_offset(1), random.next() | std::uint64_t{1} << 40);
  return bytes;
}

// A stranger may have streams of its own.
bool is_join_of_other_streams(const std::vector<std::uint8_t>& bytes) {
  const PacketView packet = parse_packet(bytes).view();
  if (packet.type() != PacketType::kJoin) return false;
  const std::optional<Join> join = Join::read(packet.body);
  return join && join->first_stream != 0;
}

TEST(Hostile, BodiesOfControlMessagesHaveOneFateEachAndDisturbNoMember) {
  ServerHarness h = ServerHarness::behind_switch(4);
  Random random(23);
  for (int i = 0; i < 50'000; ++i) {
    const Endpoint senders[] = {kStranger, kTestSwitch, worker_endpoint(1)};
    const std::uint64_t dropped = drops_in(h.server.counters());
    const std::vector<std::uint8_t> bytes = forged_control(h, random);
    h.receive(senders[random.below(std::size(senders))], bytes);
    std::vector<Sent> answers = h.take();
    // Sent to the ranks with which a JOIN does not agree, at most once a second.
    std::erase_if(answers, [](const Sent& s) {
      return s.type() == PacketType::kStatus && s.status().code == StatusCode::kRefused &&
             s.status().nonce == 0;
    });
    if (drops_in(h.server.counters()) == dropped) {
      EXPECT_TRUE(is_join_of_other_streams(bytes));
    } else {
      EXPECT_EQ(drops_in(h.server.counters()), dropped + 1);
      EXPECT_LE(answers.size(), 1u) << "at most one answer per packet";
    }
    for (const Sent& answer : answers) {
      if (answer.type() != PacketType::kStatus) continue;
      EXPECT_NE(answer.status().nonce, nonce_of(answer.ranks.lowest()))
          << "addressed to the holder of the rank";
    }
  }
  EXPECT_LE(h.server.job_count(), 256u);
  const JobSummary job = h.summary();
  EXPECT_FALSE(job.joining);
  EXPECT_TRUE(job.detached.empty() && job.lost.empty() && job.left.empty());
  h.gradient(kTestSwitch, {.ranks = RankSet::first(4), .values = {7, 8}});
  const auto parameters = h.take(PacketType::kParameter);
  ASSERT_EQ(parameters.size(), 1u);
  EXPECT_EQ(parameters[0].to, kTestSwitch);
  EXPECT_EQ(parameters[0].values(), (std::vector<std::int32_t>{7, 8}));
}

}  // namespace
}  // namespace atp
