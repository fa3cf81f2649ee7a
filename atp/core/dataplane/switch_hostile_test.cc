#include <gtest/gtest.h>

#include <set>
#include <string>

#include "atp/base/random.h"
#include "atp/core/dataplane/switch_rig_test.h"

// Packets that no honest node sends: whatever comes, the switch survives and answers little, and
// every packet that it does not use increments exactly one drop counter (docs/inside/protocol §7).

namespace atp::rig {
namespace {

Endpoint someone(Random& random) {
  const Endpoint everybody[] = {child(0), child(1), child(2), child(3), kServer, kStranger};
  return everybody[random.below(std::size(everybody))];
}

// Counts the packets that were used rather than dropped.
std::uint64_t uses(const Rig& rig) {
  using C = SwitchCounter;
  std::uint64_t sum = 0;
  for (const C counter :
       {C::kGradientsSummed, C::kDuplicates, C::kCompleteSumsSent, C::kPartialSumsSent,
        C::kDuplicatesReemitted, C::kForwardedDirect, C::kForwardedDetached,
        C::kForwardedBeyondLimit, C::kForwardedShape, C::kForwardedOverlap, C::kForwardedLate,
        C::kForwardedResend, C::kCollisions, C::kOperationMismatches, C::kJoinsRelayed,
        C::kLeavesRelayed, C::kQuestions}) {
    sum += rig.count(counter);
  }
  return sum;
}

// Feeds one packet, which must be counted exactly once.
void feed(Rig& rig, const Endpoint& from, const Bytes& bytes) {
  const std::uint64_t before = rig.drops() + uses(rig);
  const auto sent = rig.in(from, bytes);
  const std::uint64_t after = rig.drops() + uses(rig);
  const auto downward = [&] {
    const ParsedPacket parsed = parse_packet(bytes);
    return parsed.ok() && parsed.view().type() != PacketType::kGradient &&
           parsed.view().type() != PacketType::kJoin && parsed.view().type() != PacketType::kLeave;
  };
  if (after == before) {
    EXPECT_TRUE(downward() && !sent.empty()) << "a packet vanished uncounted";
  } else {
    EXPECT_EQ(after, before + 1) << "one packet, one fate";
  }
  for (const Sent& one : sent) one.view();
}

TEST(SwitchHostile, RandomBytesAreDroppedUnderAName) {
  Rig rig;
  rig.join_all();
  Random random(1);
  for (int i = 0; i < 20'000; ++i) {
    Bytes bytes(random.below(300));
    for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random.next());
    if (!bytes.empty() && random.chance(0.9)) bytes[0] = ATP_VERSION;
    if (bytes.size() > 3 && random.chance(0.9)) {
      bytes[1] = static_cast<std::uint8_t>(random.below(8));
      bytes[2] &= ATP_FLAGS_KNOWN;
      bytes[3] = static_cast<std::uint8_t>(random.below(4));
    }
    const std::uint64_t before = rig.drops();
    rig.in(someone(random), bytes);
    EXPECT_EQ(rig.drops(), before + 1);
  }
}

std::vector<Bytes> honest_packets() {
  StatusMessage detached;
  detached.code = StatusCode::kDetached;
  detached.about = ranks({1, 3});
  detached.numbers[0] = 1;
  StatusMessage taken;
  taken.code = StatusCode::kRankTaken;
  taken.add_endpoint(kStranger);
  taken.about = ranks({2});
  taken.nonce = nonce(2);
  return {gradient(ranks({0}), 0, 1),
          gradient(ranks({1}), 1, 1, ATP_FLAG_RESEND),
          gradient(ranks({0, 1, 2, 3}), 2, 1),
          parameter(RankSet::first(4), 0),
          bare(PacketType::kFlush, RankSet::first(4), 1),
          bare(PacketType::kNack, RankSet::first(4), 1),
          join(0),
          join(2),
          join_ack(RankSet::first(4), ack_body()),
          leave(3, nonce(3)),
          status(RankSet::first(4), detached),
          status(RankSet::first(4), taken)};
}

TEST(SwitchHostile, MutatedPacketsHaveOneFateEach) {
  const std::vector<Bytes> honest = honest_packets();
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rig rig;
    rig.join_all();
    Random random(seed);
    for (int i = 0; i < 1000; ++i) {
      Bytes bytes = honest[random.below(honest.size())];
      for (std::uint64_t change = random.below(4); change > 0; --change) {
        std::uint8_t& byte = bytes[random.below(bytes.size())];
        byte = random.chance(0.5) ? static_cast<std::uint8_t>(random.next())
                                  : static_cast<std::uint8_t>(byte ^ (1U << random.below(8)));
      }
      if (random.chance(0.05)) bytes.resize(random.below(bytes.size() + 1));
      if (random.chance(0.05)) bytes.resize(bytes.size() + random.below(40));
      feed(rig, someone(random), bytes);
      if (random.chance(0.01)) rig.wait(std::chrono::milliseconds(random.below(2000)));
    }
    rig.wait(20min);
  }
}

TEST(SwitchHostile, EveryTruncationIsDropped) {
  for (const Bytes& honest : honest_packets()) {
    Rig rig;
    rig.join_all();
    for (std::size_t length = 0; length < honest.size(); ++length) {
      for (const Endpoint& from : {child(0), kServer}) {
        const std::uint64_t before = rig.drops();
        rig.in(from, Bytes(honest.begin(), honest.begin() + static_cast<std::ptrdiff_t>(length)));
        EXPECT_EQ(rig.drops(), before + 1) << length << " of " << honest.size() << " bytes";
      }
    }
  }
}

TEST(SwitchHostile, AFloodIsAnsweredNoFasterThanThePauseAllows) {
  Rig rig;
  Random random(3);
  std::size_t answers = 0;
  for (int i = 0; i < 50'000; ++i) {
    atp_header h = head(PacketType::kGradient, 0);
    h.value_count = 1;
    h.job = static_cast<std::uint32_t>(random.next());
    Endpoint from = kStranger;
    from.port = static_cast<std::uint16_t>(random.next());
    answers += rig.in(from, packet(h, ranks({0}))).size();
  }
  EXPECT_EQ(answers, std::size_t{AnswerPacer::kAddressBurst})
      << "all within one pause, from one address";
  EXPECT_EQ(rig.node.trees(), 0u);
}

TEST(SwitchCounters, EachHasAUniquePrometheusName) {
  std::set<std::string> names;
  Rig rig;
  rig.node.counters().for_each([&](std::string_view name, std::uint64_t) {
    EXPECT_TRUE(names.insert(std::string(name)).second) << name;
    EXPECT_NE(name, "unknown");
    EXPECT_EQ(name.find_first_not_of("abcdefghijklmnopqrstuvwxyz_"), std::string_view::npos);
  });
  for (std::size_t e = 0; e < static_cast<std::size_t>(ParseError::kCount); ++e) {
    const auto error = static_cast<ParseError>(e);
    EXPECT_EQ(to_string(switch_counter_of(error)), to_string(error));
  }
}

}  // namespace
}  // namespace atp::rig
