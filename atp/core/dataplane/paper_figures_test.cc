// The examples of the paper's Figures 4, 7 and 17, step by step through a whole switch.
#include <gmock/gmock.h>

#include "atp/core/dataplane/switch_rig_test.h"

namespace atp::rig {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr std::uint32_t kAggregators = 16;

// The index that makes the switch use this aggregator.
std::uint32_t index_of(std::uint32_t aggregator) {
  return static_cast<std::uint32_t>((std::uint64_t{aggregator} << 32) / kAggregators);
}

struct Job {
  JobKey key;
  unsigned first_child;

  Endpoint worker(Rank rank) const { return child(first_child + rank); }

  Bytes join(Rank rank) const {
    Join body = join_body(rank);
    body.world_size = 2;
    return control(put_join, {.type = PacketType::kJoin, .job = key}, RankSet::of(rank), body);
  }
  Bytes ack(Rank rank) const {
    JoinAck body = ack_body();
    body.nonce = nonce(rank);
    body.world_size = 2;
    return control(put_join_ack, {.type = PacketType::kJoinAck, .job = key}, RankSet::of(rank),
                   body);
  }
  atp_header head_of(PacketType type, std::uint64_t sequence, std::uint32_t aggregator) const {
    atp_header h = head(type, sequence);
    h.job = key.job;
    h.incarnation = key.incarnation;
    h.value_count = kValues;
    h.aggregator_index = index_of(aggregator);
    return h;
  }
  Bytes gradient(Rank rank, std::uint64_t sequence, std::uint32_t aggregator, std::uint32_t value,
                 unsigned flags = 0) const {
    atp_header h = head_of(PacketType::kGradient, sequence, aggregator);
    h.flags = static_cast<std::uint8_t>(flags);
    return packet(h, RankSet::of(rank), value);
  }
  Bytes parameter(std::uint64_t sequence, std::uint32_t aggregator, std::uint32_t value) const {
    return packet(head_of(PacketType::kParameter, sequence, aggregator), RankSet::first(2), value);
  }
};

const Job kJob1{{1, 1}, 0};
const Job kJob3{{3, 1}, 2};

class PaperFigure : public testing::Test {
 protected:
  PaperFigure() : rig(switch_config()) {
    for (const Job* job : {&kJob1, &kJob3}) {
      for (const Rank rank : {0, 1}) {
        rig.in(job->worker(rank), job->join(rank));
        rig.in(kServer, job->ack(rank));
      }
    }
  }
  static SwitchConfig switch_config() {
    SwitchConfig with = config();
    with.aggregators = kAggregators;
    with.places = 1;
    return with;
  }
  // Aggregator 9 is reserved by job 1, sequence 2.
  void reserve_9() { rig.in(kJob1.worker(0), kJob1.gradient(0, 2, 9, 1000)); }

  Rig rig;
};

TEST_F(PaperFigure, Number4JobThreeSumsAInTheSwitchAndBAtTheServer) {
  constexpr std::uint64_t kA = 0;
  constexpr std::uint64_t kB = 1;
  reserve_9();
  EXPECT_THAT(rig.in(kJob3.worker(0), kJob3.gradient(0, kA, 7, 1)), IsEmpty())
      << "A1 reserves aggregator 7";
  const auto b1 = rig.in(kJob3.worker(0), kJob3.gradient(0, kB, 9, 10));
  ASSERT_THAT(receivers(b1), ElementsAre(kServer)) << "aggregator 9 belongs to job 1";
  const auto a = rig.in(kJob3.worker(1), kJob3.gradient(1, kA, 7, 2));
  ASSERT_THAT(receivers(a), ElementsAre(kServer));
  EXPECT_EQ(a[0].view().ranks, RankSet::first(2));
  EXPECT_THAT(a[0].values(), Each(3u));
  const auto b2 = rig.in(kJob3.worker(1), kJob3.gradient(1, kB, 9, 20));
  ASSERT_THAT(receivers(b2), ElementsAre(kServer));
  EXPECT_THAT(b1[0].values(), Each(10u));
  EXPECT_THAT(b2[0].values(), Each(20u)) << "the server adds B1 and B2";

  EXPECT_EQ(rig.node.aggregators_in_use(), 2u);
  const auto down = rig.in(kServer, kJob3.parameter(kA, 7, 3));
  EXPECT_THAT(receivers(down), ElementsAre(kJob3.worker(0), kJob3.worker(1)));
  EXPECT_EQ(rig.node.aggregators_in_use(), 1u) << "A' frees aggregator 7";
  EXPECT_THAT(rig.in(kJob1.worker(1), kJob1.gradient(1, 5, 7, 1)), IsEmpty())
      << "another job may use aggregator 7 now";
}

TEST_F(PaperFigure, Number7EachBoxOfTheIdealCase) {
  reserve_9();
  // 1, 2: another identity. The packet is forwarded with COLLISION, otherwise unchanged.
  const auto collided = rig.in(kJob3.worker(0), kJob3.gradient(0, 1, 9, 10));
  ASSERT_THAT(collided, SizeIs(1));
  EXPECT_TRUE(collided[0].view().has(ATP_FLAG_COLLISION));
  EXPECT_THAT(collided[0].values(), Each(10u));
  // 3, 4, 5, 6: new, added, not complete: consumed.
  EXPECT_THAT(rig.in(kJob3.worker(0), kJob3.gradient(0, 0, 7, 1)), IsEmpty());
  // 7: a duplicate. Dropped, but its ECN sticks.
  EXPECT_THAT(rig.in(kJob3.worker(0), kJob3.gradient(0, 0, 7, 1, ATP_FLAG_ECN)), IsEmpty());
  // Complete: the sum goes up with the whole bitmap and ECN.
  const auto sum = rig.in(kJob3.worker(1), kJob3.gradient(1, 0, 7, 2));
  ASSERT_THAT(sum, SizeIs(1));
  EXPECT_THAT(sum[0].values(), Each(3u));
  EXPECT_TRUE(sum[0].view().has(ATP_FLAG_ECN));
  EXPECT_EQ(sum[0].view().ranks, RankSet::first(2));
  // 8: the PARAMETER frees only the aggregator with its identity.
  rig.in(kServer, kJob3.parameter(1, 9, 30));
  EXPECT_EQ(rig.node.aggregators_in_use(), 2u);
  rig.in(kServer, kJob3.parameter(0, 7, 3));
  EXPECT_EQ(rig.node.aggregators_in_use(), 1u);
}

TEST_F(PaperFigure, Number17ARepeatSendsThePartialSumAndFreesTheAggregator) {
  // 1, 5, 7: the repeat is a duplicate: the partial sum leaves with its bitmap.
  rig.in(kJob3.worker(0), kJob3.gradient(0, 0, 7, 1));
  const auto partial = rig.in(kJob3.worker(0), kJob3.gradient(0, 0, 7, 1, ATP_FLAG_RESEND));
  ASSERT_THAT(partial, SizeIs(1));
  EXPECT_EQ(partial[0].view().ranks, RankSet::of(0));
  EXPECT_THAT(partial[0].values(), Each(1u));
  EXPECT_EQ(rig.node.aggregators_in_use(), 0u);
  // The other worker's repeat reserves nothing and is forwarded.
  const auto other = rig.in(kJob3.worker(1), kJob3.gradient(1, 0, 7, 2, ATP_FLAG_RESEND));
  ASSERT_THAT(other, SizeIs(1));
  EXPECT_EQ(other[0].view().ranks, RankSet::of(1));
  EXPECT_EQ(rig.node.aggregators_in_use(), 0u);
  // 6, 7: a repeat that is not in the sum is added first.
  rig.in(kJob3.worker(0), kJob3.gradient(0, 4, 8, 1));
  const auto both = rig.in(kJob3.worker(1), kJob3.gradient(1, 4, 8, 2, ATP_FLAG_RESEND));
  ASSERT_THAT(both, SizeIs(1));
  EXPECT_EQ(both[0].view().ranks, RankSet::first(2));
  EXPECT_THAT(both[0].values(), Each(3u));
  EXPECT_EQ(rig.node.aggregators_in_use(), 0u);
  // A repeated PARAMETER frees as the first one does.
  rig.in(kJob3.worker(0), kJob3.gradient(0, 8, 3, 1));
  rig.in(kServer, kJob3.parameter(8, 3, 3));
  EXPECT_EQ(rig.node.aggregators_in_use(), 0u);
}

}  // namespace
}  // namespace atp::rig
