#include "atp/core/dataplane/switch_node.h"

#include <gmock/gmock.h>

#include "atp/core/dataplane/switch_rig_test.h"

// Gradients up and messages down through a whole switch (docs/inside/protocol §4); pipeline_test.cc
// tests the rows of the table.

namespace atp::rig {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

TEST(SwitchNode, SumsItsChildrensGradientsAndSendsTheSumUp) {
  Rig rig;
  rig.join_all();
  for (const unsigned rank : {2, 0, 3}) {
    EXPECT_THAT(rig.in(child(rank), gradient(RankSet::of(static_cast<Rank>(rank)), 0, 10 + rank)),
                IsEmpty());
  }
  const auto sent = rig.in(child(1), gradient(ranks({1}), 0, 11));
  ASSERT_THAT(receivers(sent), ElementsAre(kServer));
  atp_header h = head(PacketType::kGradient, 0);
  h.value_count = kValues;
  h.magnitude = 46;
  EXPECT_EQ(sent[0].bytes, one_hop_on(packet(h, RankSet::first(4), 46)));
  EXPECT_EQ(rig.count(SwitchCounter::kGradientsSummed), 3u);
  EXPECT_EQ(rig.count(SwitchCounter::kCompleteSumsSent), 1u);
  EXPECT_EQ(rig.node.aggregators_in_use(), 1u) << "until the PARAMETER";

  EXPECT_EQ(rig.in(child(1), gradient(ranks({1}), 0, 11)).at(0).bytes, sent[0].bytes);
  rig.in(kServer, parameter(RankSet::first(4), 0));
  EXPECT_EQ(rig.node.aggregators_in_use(), 0u);
}

TEST(SwitchNode, OneRankIsSummedAtOnce) {
  Rig rig;
  rig.enter(0, child(0));
  const Bytes in = gradient(ranks({0}), 3, 9, ATP_FLAG_ECN);
  const auto sent = rig.in(child(0), in);
  ASSERT_THAT(receivers(sent), ElementsAre(kServer));
  EXPECT_EQ(sent[0].bytes, one_hop_on(in));
}

TEST(SwitchNode, ASwitchBelowIsAChildWithSeveralRanks) {
  Rig rig;
  for (unsigned rank = 0; rank < 4; ++rank) rig.enter(rank, child(rank < 3 ? 0 : 3));
  rig.in(child(3), gradient(ranks({3}), 0, 4));
  const auto sent = rig.in(child(0), gradient(ranks({0, 1, 2}), 0, 6));
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_THAT(sent[0].values(), Each(10u));
  EXPECT_THAT(receivers(rig.in(kServer, parameter(RankSet::first(4), 0))),
              testing::UnorderedElementsAre(child(0), child(3)));
}

TEST(SwitchNode, AParameterGoesToEachChildThatIsAddressed) {
  Rig rig;
  rig.join_all();
  const Bytes bytes = parameter(ranks({0, 2, 3}), 5);
  Bytes sent_on = one_hop_on(bytes);
  sent_on[ATP_AT_PART] = atp_part_code(rig.node.config().aggregators);
  const auto sent = rig.in(kServer, bytes);
  EXPECT_THAT(receivers(sent), testing::UnorderedElementsAre(child(0), child(2), child(3)));
  for (const Sent& one : sent) EXPECT_EQ(one.bytes, sent_on);
  EXPECT_EQ(rig.count(SwitchCounter::kMulticastCopies), 4u + 3u) << "with those of the JOIN_ACK";
  EXPECT_THAT(rig.in(kServer, parameter(ranks({40}), 6)), IsEmpty());
  EXPECT_EQ(rig.count(SwitchCounter::kDropNoChildAddressed), 1u);
}

TEST(SwitchNode, DownwardMessagesComeFromTheParentOnly) {
  Rig rig;
  rig.join_all();
  for (unsigned rank = 0; rank < 3; ++rank) {
    rig.in(child(rank), gradient(RankSet::of(static_cast<Rank>(rank)), 0, 1));
  }
  const SwitchNode before = rig.node;
  StatusMessage detached;
  detached.code = StatusCode::kDetached;
  detached.about = ranks({1});
  detached.numbers[0] = 9;
  const Bytes downward[] = {
      parameter(RankSet::first(4), 0),
      bare(PacketType::kFlush, RankSet::first(4), 0),
      bare(PacketType::kNack, RankSet::first(4), 0),
      join_ack(RankSet::first(4), ack_body()),
      status(RankSet::first(4), detached),
  };
  for (const Bytes& bytes : downward) {
    EXPECT_THAT(rig.in(child(0), bytes), IsEmpty());
    EXPECT_THAT(rig.in(kStranger, bytes), IsEmpty());
  }
  EXPECT_EQ(rig.count(SwitchCounter::kDropNotFromParent), 10u);
  EXPECT_EQ(rig.drops(), 10u);
  EXPECT_EQ(rig.node.aggregators_in_use(), 1u);
  EXPECT_THAT(rig.in(child(3), gradient(ranks({3}), 0, 1)), SizeIs(1)) << "the mask has all ranks";
}

TEST(SwitchNode, NacksAndStatusesPassUntouched) {
  Rig rig;
  rig.join_all();
  rig.in(child(0), gradient(ranks({0}), 0, 1));
  StatusMessage waiting;
  waiting.code = StatusCode::kWaitingFor;
  waiting.about = ranks({1, 2, 3});
  for (const Bytes& bytes :
       {bare(PacketType::kNack, ranks({1, 2}), 0), status(ranks({1, 2}), waiting)}) {
    const auto sent = rig.in(kServer, bytes);
    EXPECT_THAT(receivers(sent), testing::UnorderedElementsAre(child(1), child(2)));
    EXPECT_EQ(sent.at(0).bytes, one_hop_on(bytes));
  }
  EXPECT_EQ(rig.node.aggregators_in_use(), 1u);
}

TEST(SwitchNode, RemembersWhomTheServerWaitsForUntilItStopsReportingIt) {
  const auto waiting = [](const Rig& rig) {
    std::optional<HeardWaiting> heard;
    rig.node.for_each_tree(
        [&](const Tree& tree, const atp_share&) { heard = tree.waiting(rig.now); });
    return heard;
  };
  StatusMessage message{.code = StatusCode::kWaitingFor};
  message.about = ranks({2});
  message.add_endpoint(child(2));
  message.cause = CauseText("sum #17");
  Rig joining;
  joining.in(child(0), join(0));
  joining.in(kServer, status(ranks({0}), message));
  EXPECT_FALSE(waiting(joining)) << "nothing is summed while the job is incomplete";

  Rig rig;
  rig.join_all();
  EXPECT_FALSE(waiting(rig));
  const Instant begin = rig.now;
  for (int i = 0; i < 3; ++i, rig.wait(1s)) {
    rig.in(kServer, status(RankSet::first(4), message));
    ASSERT_TRUE(waiting(rig));
    EXPECT_EQ(waiting(rig)->ranks, ranks({2}));
    EXPECT_EQ(waiting(rig)->homes[0], child(2));
    EXPECT_EQ(waiting(rig)->description.view(), "sum #17");
    EXPECT_EQ(waiting(rig)->since, begin - 1s) << "the server waits for a second before it reports";
  }
  rig.wait(600ms);
  EXPECT_FALSE(waiting(rig));

  rig.in(kServer, status(RankSet::first(4), message));
  EXPECT_TRUE(waiting(rig));
  rig.in(kServer, parameter(RankSet::first(4), 0));
  EXPECT_FALSE(waiting(rig)) << "the rank's packet has arrived";
  rig.in(kServer, status(RankSet::first(4), message));
  EXPECT_EQ(waiting(rig)->since, rig.now - 1s)
      << "late in each step does not mean late all the time";
}

TEST(SwitchNode, MeasuresHowLateEachOfItsRanksIs) {
  Rig rig;
  rig.join_all();
  for (std::uint64_t step = 0; step < 4; ++step) {
    for (unsigned rank = 0; rank < 4; ++rank) {
      if (rank == 3) rig.wait(40ms);
      Bytes bytes = gradient(ranks({static_cast<int>(rank)}), step, 1);
      atp_store32(bytes.data() + ATP_AT_OPERATION, static_cast<std::uint32_t>(100 + step));
      rig.in(child(rank), bytes);
    }
    // The sequence limit is known from here on.
    rig.in(kServer, parameter(RankSet::first(4), step));
  }
  // If it counted, the honest packets after it would be taken for repeats.
  Bytes forged = gradient(ranks({3}), std::uint64_t{1} << 40, 1);
  forged[ATP_AT_FLAGS] |= ATP_FLAG_DIRECT;
  rig.in(child(3), forged);
  rig.node.for_each_tree([&](const Tree& tree, const atp_share&) {
    const auto lateness = tree.lateness().of_ranks();
    ASSERT_EQ(lateness.size(), 4U);
    EXPECT_GT(lateness[3].first.quantile(0.5), 32ms);
    EXPECT_LE(lateness[1].first.quantile(0.99), 1us);
  });
}

TEST(SwitchNode, AFlushFetchesThePartialSumOrPassesIfThereIsNone) {
  Rig rig;
  rig.join_all();
  rig.in(child(0), gradient(ranks({0}), 0, 5, ATP_FLAG_COLLISION));
  rig.in(child(1), gradient(ranks({1}), 0, 6));
  const Bytes bytes = bare(PacketType::kFlush, ranks({2, 3}), 0);
  const auto sum = rig.in(kServer, bytes);
  ASSERT_THAT(receivers(sum), ElementsAre(kServer));
  EXPECT_EQ(sum[0].view().ranks, ranks({0, 1}));
  EXPECT_EQ(sum[0].view().header.flags, ATP_FLAG_RESEND | ATP_FLAG_COLLISION);
  EXPECT_EQ(sum[0].view().header.magnitude, 11u);
  EXPECT_THAT(sum[0].values(), Each(11u));
  EXPECT_THAT(receivers(rig.in(kServer, bytes)), ElementsAre(child(2), child(3)));
  EXPECT_THAT(rig.in(child(2), gradient(ranks({2}), 0, 7)), SizeIs(1))
      << "its fragment never claims again";
}

TEST(SwitchNode, AnUnknownJobIsToldToJoinAgain) {
  Rig rig;
  const auto sent = rig.in(child(1), gradient(ranks({1}), 0, 1));
  ASSERT_THAT(receivers(sent), ElementsAre(child(1)));
  EXPECT_EQ(sent[0].status().code, StatusCode::kUnknownJob);
  EXPECT_EQ(sent[0].status().about, ranks({1}));
  EXPECT_EQ(sent[0].view().ranks, ranks({1}));
  EXPECT_EQ(sent[0].view().job(), kJob);
  EXPECT_EQ(rig.count(SwitchCounter::kDropUnknownJob), 1u);

  EXPECT_THAT(rig.in(child(1), gradient(ranks({1}), 1, 1)), IsEmpty()) << "not twice per pause";
  EXPECT_EQ(rig.count(SwitchCounter::kStatusesWithheld), 1u);
  rig.wait(10ms);
  EXPECT_THAT(rig.in(child(1), gradient(ranks({1}), 1, 1)), SizeIs(1));
}

TEST(SwitchNode, ForeignIncarnationsAndStreamsAreUnknownJobs) {
  Rig rig;
  rig.join_all();
  atp_header h = head(PacketType::kGradient, 0);
  h.value_count = kValues;
  h.incarnation = 99;
  rig.in(child(0), packet(h, ranks({0})));
  h = head(PacketType::kGradient, 0);
  h.value_count = kValues;
  h.stream = 4;
  rig.in(child(0), packet(h, ranks({0})));
  h.type = ATP_PARAMETER;
  rig.in(kServer, packet(h, ranks({0})));
  EXPECT_EQ(rig.count(SwitchCounter::kDropUnknownJob), 3u);
}

TEST(SwitchNode, OnlyTheUnknownRanksBehindTheSenderAreNamed) {
  Rig rig;
  rig.enter(0, child(0));
  rig.enter(1, child(1));
  const auto sent = rig.in(child(0), gradient(ranks({0, 2}), 0, 1));
  ASSERT_THAT(receivers(sent), ElementsAre(child(0)));
  EXPECT_EQ(sent[0].status().about, ranks({2}));
  EXPECT_EQ(sent[0].view().ranks, ranks({2}));
  EXPECT_EQ(rig.count(SwitchCounter::kDropForeignRanks), 1u);
}

TEST(SwitchNode, AnEarlierVersionIsAnsweredInItsOwnFormatWithTheSupportedVersions) {
  Rig rig;
  Bytes bytes = join(0);
  bytes[0] = 1;
  auto sent = rig.in(child(0), bytes);
  ASSERT_THAT(receivers(sent), ElementsAre(child(0)));
  EXPECT_EQ(sent[0].bytes[0], 1) << "version 1 has the same layout of a STATUS";
  sent[0].bytes[0] = ATP_VERSION;
  EXPECT_EQ(sent[0].status().code, StatusCode::kVersions);
  EXPECT_EQ(sent[0].status().reason, 0x0202);
  EXPECT_EQ(sent[0].view().job(), kJob);
  EXPECT_TRUE(sent[0].view().ranks.contains(0));
  EXPECT_LE(sent[0].bytes.size(), bytes.size());
  EXPECT_EQ(rig.count(SwitchCounter::kDropUnknownVersion), 1u);
  EXPECT_THAT(rig.in(child(0), bytes), IsEmpty());
  bytes[1] = ATP_STATUS;
  EXPECT_THAT(rig.in(kStranger, bytes), IsEmpty()) << "an answer is never answered";
}

TEST(SwitchNode, APacketIsForwardedAsOftenAsItsHopsAllow) {
  Rig rig;
  rig.join_all();
  Bytes bytes = gradient(ranks({0}), 0, 1, ATP_FLAG_DIRECT);
  bytes[ATP_AT_HOPS] = 1;
  EXPECT_EQ(rig.in(child(0), bytes).at(0).view().header.hops, 0);
  bytes[ATP_AT_HOPS] = 0;
  EXPECT_THAT(rig.in(child(0), bytes), IsEmpty());
  EXPECT_EQ(rig.count(SwitchCounter::kDropTooManyHops), 1u);
}

TEST(SwitchNode, MaximaAreCombinedAsMaximaAndSixteenBitValuesAsSeparateLanes) {
  Rig rig;
  rig.join_all();
  const auto of = [](unsigned rank, std::uint32_t word) {
    atp_header h = head(PacketType::kGradient, 0);
    h.kind = ATP_KIND_EXPONENTS;
    h.value_count = 2;
    Bytes bytes = packet(h, RankSet::of(static_cast<Rank>(rank)));
    atp_store32(&bytes[atp_body_offset(1)], word);
    return bytes;
  };
  rig.in(child(0), of(0, 0xffff0005));  // -1 and 5
  rig.in(child(1), of(1, 0xfffe0007));
  rig.in(child(2), of(2, 0x80008000));
  const auto sent = rig.in(child(3), of(3, 0xfff00001));
  EXPECT_THAT(sent.at(0).values(), ElementsAre(0xffff0007u));
  EXPECT_EQ(sent[0].view().header.kind, ATP_KIND_EXPONENTS);
}

TEST(SwitchNode, OnceKIsAgreedLongerPacketsAreDropped) {
  Rig rig;
  rig.join_all();
  atp_header h = head(PacketType::kGradient, 0);
  h.value_count = kValues + 1;
  EXPECT_THAT(rig.in(child(0), packet(h, ranks({0}))), IsEmpty());
  EXPECT_EQ(rig.count(SwitchCounter::kDropWrongValueCount), 1u);
}

TEST(SwitchNode, APacketWithMoreValuesThanAnAggregatorHoldsPassesAsDirect) {
  Rig rig;
  rig.in(child(0), join(0));
  JoinAck ack = ack_body();
  ack.nonce = nonce(0);
  ack.value_count = ATP_VALUES_MAX;  // the job began before this switch did
  rig.in(kServer, join_ack(ranks({0}), ack));
  atp_header h = head(PacketType::kGradient, 0);
  h.value_count = ATP_VALUES_MAX;
  const auto sent = rig.in(child(0), packet(h, ranks({0}), 3));
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_TRUE(sent[0].view().has(ATP_FLAG_DIRECT));
  EXPECT_THAT(sent[0].values(), Each(3u));
  EXPECT_EQ(rig.node.aggregators_in_use(), 0u);
}

TEST(SwitchNode, AForgedSequenceFarAheadLeavesNoMark) {
  Rig rig;
  rig.join_all();
  rig.in(kServer, parameter(RankSet::first(4), 10));
  const std::uint64_t last = 10 + 2 * kWmax;
  EXPECT_THAT(rig.in(child(0), gradient(ranks({0}), last, 1)), IsEmpty());
  const auto sent = rig.in(child(0), gradient(ranks({0}), last + 1, 1));
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_TRUE(sent[0].view().has(ATP_FLAG_DIRECT));
  EXPECT_EQ(rig.count(SwitchCounter::kForwardedBeyondLimit), 1u);
  EXPECT_EQ(rig.node.aggregators_in_use(), 1u);

  rig.in(kServer, parameter(RankSet::first(4), 5));  // late
  EXPECT_THAT(rig.in(child(1), gradient(ranks({1}), last, 1)), IsEmpty())
      << "the limit never falls";
  rig.in(kServer, parameter(RankSet::first(4), 11));
  EXPECT_THAT(rig.in(child(0), gradient(ranks({0}), last + 1, 1)), IsEmpty());
  // Each stream has its own limit.
  atp_header h = head(PacketType::kGradient, 1'000'000);
  h.value_count = kValues;
  h.stream = 1;
  EXPECT_THAT(rig.in(child(0), packet(h, ranks({0}))), IsEmpty());
}

TEST(SwitchNode, GradientsThatWouldQueueAtTheUplinkCarryEcn) {
  SwitchConfig slow = config();
  slow.uplink_bits_per_s =
      1'100'000;  // one such packet, 134 bytes on the wire, takes a millisecond
  Rig rig(slow);
  rig.enter(0, child(0));
  EXPECT_FALSE(rig.in(child(0), gradient(ranks({0}), 0, 1)).at(0).view().has(ATP_FLAG_ECN));
  const auto marked = rig.in(child(0), gradient(ranks({0}), 1, 1));
  EXPECT_TRUE(marked.at(0).view().has(ATP_FLAG_ECN));
  EXPECT_THAT(marked.at(0).values(), Each(1u));
  EXPECT_EQ(rig.count(SwitchCounter::kEcnMarks), 1u);
  rig.wait(10ms);
  EXPECT_FALSE(rig.in(child(0), gradient(ranks({0}), 2, 1)).at(0).view().has(ATP_FLAG_ECN));
}

TEST(SwitchNode, LosingItsMemoryCostsARoundTripButNoResult) {
  Rig rig;
  rig.join_all();
  rig.in(child(0), gradient(ranks({0}), 0, 1));
  rig.node = SwitchNode(config());
  const auto sent = rig.in(child(1), gradient(ranks({1}), 0, 1));
  EXPECT_EQ(sent.at(0).status().code, StatusCode::kUnknownJob);
  rig.join_all();
  std::vector<Sent> sum;
  for (unsigned rank = 0; rank < 4; ++rank) {
    sum = rig.in(child(rank), gradient(RankSet::of(static_cast<Rank>(rank)), 0, 1));
  }
  EXPECT_THAT(sum.at(0).values(), Each(4u));
}

TEST(SwitchNode, IsAValue) {
  Rig rig;
  rig.join_all();
  rig.in(child(0), gradient(ranks({0}), 0, 1));
  const SwitchNode before = rig.node;
  EXPECT_TRUE(before == rig.node);
  rig.in(child(1), gradient(ranks({1}), 0, 1));
  EXPECT_FALSE(before == rig.node);
  const SwitchNode after = rig.node;
  rig.node = before;
  rig.in(child(1), gradient(ranks({1}), 0, 1));
  EXPECT_TRUE(after == rig.node) << "the same packet has the same effect";
}

TEST(SwitchNode, CountsUnreachableNeighbours) {
  Rig rig;
  Outbox out;
  rig.node.handle_unreachable(rig.now, kServer, out);
  EXPECT_EQ(rig.count(SwitchCounter::kUnreachable), 1u);
  EXPECT_TRUE(out.empty());
}

}  // namespace
}  // namespace atp::rig
