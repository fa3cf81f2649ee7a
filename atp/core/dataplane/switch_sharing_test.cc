#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "atp/core/dataplane/switch_jobs_test.h"

// How jobs share a switch's aggregators: first come, first served, by a static partition, or within
// a quota (docs/inside/protocol §4, *Sharing*). switch_parts_test.cc has what they get while they
// contend.

namespace atp::rig {
namespace {

// Fragments with the same number use the same index in every job here.
TEST(SwitchSharing, WithoutAPartitionTheFirstJobHasTheAggregator) {
  Jobs rig({});
  rig.enter(1);
  rig.enter(2);
  EXPECT_TRUE(rig.keeps(1, 5));
  EXPECT_FALSE(rig.keeps(2, 5));
  EXPECT_EQ(rig.count(SwitchCounter::kCollisions), 1u);
}

using Counts = std::pair<std::uint64_t, std::uint64_t>;

// Of the job's GRADIENTs that looked for a place: how many found one, and how many did not.
Counts demand_of(const Jobs& rig, std::uint32_t job) {
  Counts counts;
  rig.node.for_each_tree([&](const Tree& tree, const atp_share&) {
    if (tree.job().job == job) counts = {tree.demand().found, tree.demand().collided};
  });
  return counts;
}

TEST(SwitchSharing, CountsTheGradientsOfEachJobAndThoseThatFoundNoPlace) {
  Jobs rig({.quota = 1});
  rig.enter(1);
  rig.enter(2);
  ASSERT_TRUE(rig.keeps(1, 5));
  rig.send(1, 1, 5);                   // added
  rig.send(2, 0, 5);                   // others hold its place
  rig.send(1, 0, 6);                   // beyond the quota
  rig.send(1, 1, 6);                   // after that
  rig.send(1, 0, 7, ATP_FLAG_DIRECT);  // looks for none
  rig.send(1, 0, 8, ATP_FLAG_RESEND);  // nor does this one
  rig.answer(1, 9);
  rig.send(1, 0, 9);  // it is late
  EXPECT_EQ(demand_of(rig, 1), Counts(2, 2));
  EXPECT_EQ(demand_of(rig, 2), Counts(0, 1));
}

TEST(SwitchSharing, APartitionGivesEachJobARegionOfItsOwn) {
  Jobs rig({.partitions = 2});
  for (const std::uint32_t job : {1, 2}) {
    rig.enter(job);
    for (std::uint64_t sequence = 0; sequence < 8; ++sequence) {
      EXPECT_TRUE(rig.keeps(job, sequence)) << "fragment " << sequence << " of job " << job;
    }
  }
  EXPECT_EQ(rig.count(SwitchCounter::kCollisions), 0u);
}

TEST(SwitchSharing, TheGradientsOfAJobBeyondThePartitionPass) {
  Jobs rig({.partitions = 2});
  for (const std::uint32_t job : {1, 2, 3}) rig.enter(job);
  ASSERT_TRUE(rig.keeps(1, 0));
  const auto sent = rig.send(3, 0, 0);
  ASSERT_EQ(receivers(sent), std::vector<Endpoint>{kServer});
  EXPECT_EQ(sent[0].bytes, one_hop_on(of_job(gradient(RankSet::of(0), 0, 1), 3)))
      << "the next level may add it";
  EXPECT_EQ(rig.count(SwitchCounter::kForwardedNoRegion), 1u);

  const std::vector<Endpoint> children{child(0), child(1)};
  for (const PacketType type : {PacketType::kFlush, PacketType::kNack}) {
    EXPECT_EQ(receivers(rig.in(kServer, of_job(bare(type, RankSet::first(2), 0), 3))), children);
  }
  EXPECT_EQ(receivers(rig.in(kServer, of_job(parameter(RankSet::first(2), 0), 3))), children);
  EXPECT_EQ(rig.node.aggregators_in_use(), 1u) << "job 1 still holds its aggregator";
  EXPECT_EQ(rig.drops(), 0u);
}

TEST(SwitchSharing, TheRegionOfAJobThatHasLeftGoesToTheNext) {
  Jobs rig({.partitions = 1});
  rig.enter(1);
  rig.enter(2);
  EXPECT_FALSE(rig.keeps(2, 0)) << "job 1 still has the region";
  rig.depart(1);
  rig.enter(3);
  EXPECT_TRUE(rig.keeps(3, 0));
}

TEST(SwitchSharing, WhatAJobThatHasLeftStillHeldIsNotNotedInTheRegionOfTheNext) {
  Jobs rig({.partitions = 1});
  rig.enter(1);
  ASSERT_TRUE(rig.keeps(1, 5));
  rig.depart(1);
  rig.enter(2);
  rig.answer(2, 5);
  rig.wait(2s);
  EXPECT_EQ(rig.count(SwitchCounter::kSweptDiscarded), 1u);
  EXPECT_FALSE(rig.keeps(2, 5));
  EXPECT_EQ(rig.count(SwitchCounter::kForwardedLate), 1u);
}

TEST(SwitchSharing, TheRegionOfAJobThatDiedGoesToTheNext) {
  Jobs rig({.partitions = 1});
  rig.enter(1);
  rig.wait(6s);
  rig.enter(2);
  EXPECT_TRUE(rig.keeps(2, 0));
}

TEST(SwitchSharing, ARestartedJobKeepsItsRegion) {
  Jobs rig({.partitions = 1});
  rig.enter(1);
  rig.enter(1, kJob.incarnation + 1);
  EXPECT_TRUE(
      rig.in(child(0), of_job(gradient(RankSet::of(0), 0, 1), 1, kJob.incarnation + 1)).empty());
}

TEST(SwitchSharing, AJobHoldsNoMoreThanItsQuota) {
  Jobs rig({.quota = 2});
  rig.enter(1);
  rig.enter(2);
  EXPECT_TRUE(rig.keeps(1, 0));
  EXPECT_TRUE(rig.keeps(1, 1));
  const auto sent = rig.send(1, 0, 2);
  ASSERT_EQ(receivers(sent), std::vector<Endpoint>{kServer});
  EXPECT_TRUE(sent[0].view().has(ATP_FLAG_COLLISION)) << "it shall send less at a time";
  EXPECT_EQ(rig.count(SwitchCounter::kForwardedOverQuota), 1u);
  EXPECT_EQ(rig.count(SwitchCounter::kCollisions), 0u);
  EXPECT_TRUE(rig.keeps(2, 3)) << "another job may still claim";

  rig.answer(1, 0);
  EXPECT_EQ(receivers(rig.send(1, 1, 2)), std::vector<Endpoint>{kServer})
      << "the fragment's other contributions pass too, though there is room again";
  EXPECT_TRUE(rig.keeps(1, 4));
  EXPECT_FALSE(rig.keeps(1, 5));
}

TEST(SwitchSharing, TheJobsOfATenantHoldNoMoreThanItsQuotaTogether) {
  TestQuotas quotas;
  quotas.by_tenant = {{7, {.aggregators = 3}}, {8, {.aggregators = 1}}};
  Jobs rig({.quota = 2}, &quotas, [](std::uint32_t job) -> std::uint16_t {
    return job < 3 ? 7 : job == 3 ? 8 : 0;
  });
  for (const std::uint32_t job : {1, 2, 3, 4}) rig.enter(job);
  EXPECT_TRUE(rig.keeps(1, 0));
  EXPECT_TRUE(rig.keeps(2, 1));
  EXPECT_TRUE(rig.keeps(1, 2));
  EXPECT_FALSE(rig.keeps(1, 3)) << "the job's own quota";
  EXPECT_FALSE(rig.keeps(2, 4)) << "the tenant's";
  EXPECT_TRUE(rig.keeps(3, 5)) << "another tenant";
  EXPECT_FALSE(rig.keeps(3, 6));
  EXPECT_TRUE(rig.keeps(4, 7)) << "nobody's";
  rig.answer(1, 0);
  EXPECT_TRUE(rig.keeps(2, 8)) << "what one job frees, another of the tenant may take";
  EXPECT_FALSE(rig.keeps(1, 9));
}

// The table has four trees, so that a job that begins takes the place of one that has left.
TEST(SwitchSharing, ATenantHasOneQuotaWhicheverPlacesInTheTablesAreFree) {
  struct Row {
    const char* name;
    std::vector<std::uint32_t> begin;  // jobs of tenant `job / 10`, in this order
    std::vector<std::uint32_t> end;
    std::vector<std::uint32_t> then;  // further jobs of tenant 2
  };
  const Row rows[] = {
      {"the place before its own is free", {10, 20, 30, 31}, {10}, {21}},
      {"the place after its own is free", {20, 10, 30, 31}, {10}, {21}},
      {"places on both sides are free", {10, 20, 30, 11}, {10, 30, 11}, {21, 22}},
      {"others end one by one", {10, 30, 40, 20}, {10, 30, 40}, {21, 22, 23}},
      {"its own first job has ended", {20, 10, 30, 21}, {20}, {22}},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    TestQuotas quotas;
    for (std::uint16_t tenant = 1; tenant < 5; ++tenant) quotas.by_tenant[tenant].aggregators = 2;
    Jobs rig({}, &quotas, [](std::uint32_t job) { return static_cast<std::uint16_t>(job / 10); });
    for (const std::uint32_t job : row.begin) rig.enter(job);
    for (const std::uint32_t job : row.end) rig.depart(job);
    std::vector<std::uint32_t> of_two;
    for (const std::uint32_t job : row.begin) {
      const bool has_ended = std::count(row.end.begin(), row.end.end(), job) > 0;
      if (job / 10 == 2 && !has_ended) of_two.push_back(job);
    }
    for (const std::uint32_t job : row.then) {
      rig.enter(job);
      of_two.push_back(job);
    }
    std::size_t held = 0;
    for (std::uint64_t sequence = 0; sequence < 3; ++sequence) {
      for (std::size_t i = 0; i < of_two.size(); ++i) {
        held += rig.keeps(of_two[i], sequence + 3 * i) ? 1 : 0;
      }
    }
    EXPECT_EQ(held, 2u);
  }
}

TEST(SwitchSharing, ANewQuotaOfATenantHoldsForJobsThatBeginAndCountsWhatIsHeld) {
  TestQuotas quotas;
  quotas.by_tenant[7].aggregators = 1;
  Jobs rig({}, &quotas, [](std::uint32_t job) -> std::uint16_t { return job < 3 ? 7 : 0; });
  rig.enter(1);
  rig.enter(2);
  ASSERT_TRUE(rig.keeps(1, 0));
  ASSERT_FALSE(rig.keeps(2, 1));
  rig.depart(1);
  // This fills the table of jobs, so the departed job gives up its place.
  for (std::uint32_t job = 3; job < 6; ++job) rig.enter(job);
  quotas.by_tenant[7].aggregators = 2;
  rig.depart(3);
  rig.enter(1);
  EXPECT_TRUE(rig.keeps(1, 3)) << "of two, one is held from before";
  EXPECT_FALSE(rig.keeps(1, 4));
}

// Ranks, number, incarnation, streams, sequence, operation and index are all the same.
TEST(SwitchSharing, JobsOfThreeTenantsWithTheSameNumberHaveNothingInCommon) {
  constexpr std::uint16_t kTenants = 3;
  SwitchConfig with = config();
  with.sharing.quota = 1;  // for each of them
  Rig rig(with);
  const auto of = [](Bytes bytes, std::uint16_t tenant) {
    return of_job(std::move(bytes), kJob.job, kJob.incarnation, tenant);
  };
  const auto home = [](unsigned rank, std::uint16_t tenant) {
    return Endpoint::ipv4(10, 0, static_cast<std::uint8_t>(20 + tenant),
                          static_cast<std::uint8_t>(rank), 4000);
  };
  for (std::uint16_t tenant = 0; tenant < kTenants; ++tenant) {
    for (unsigned rank = 0; rank < 4; ++rank) {
      EXPECT_EQ(receivers(rig.in(home(rank, tenant), of(join(rank), tenant))),
                std::vector{kServer});
      JoinAck ack = ack_body();
      ack.nonce = nonce(rank);
      const auto sent =
          rig.in(kServer, of(join_ack(RankSet::of(static_cast<Rank>(rank)), ack), tenant));
      EXPECT_EQ(receivers(sent), std::vector{home(rank, tenant)});
      EXPECT_EQ(sent[0].view().header.tenant, tenant);
    }
  }
  EXPECT_EQ(rig.node.trees(), kTenants);
  std::array<std::vector<Sent>, kTenants> sums;
  for (unsigned rank = 0; rank < 4; ++rank) {
    for (std::uint16_t tenant = 0; tenant < kTenants; ++tenant) {
      const RankSet one = RankSet::of(static_cast<Rank>(rank));
      sums[tenant] = rig.in(home(rank, tenant), of(gradient(one, 0, 10U * tenant + rank), tenant));
    }
  }
  for (std::uint16_t tenant = 0; tenant < kTenants; ++tenant) {
    ASSERT_EQ(sums[tenant].size(), 1u) << tenant;
    EXPECT_EQ(sums[tenant][0].view().header.tenant, tenant);
    EXPECT_EQ(sums[tenant][0].values(), std::vector<std::uint32_t>(kValues, 40U * tenant + 6));
  }
  EXPECT_EQ(rig.count(SwitchCounter::kCollisions), 0u);
  EXPECT_EQ(rig.node.aggregators_in_use(), kTenants);
  rig.in(kServer, of(parameter(RankSet::first(4), 0), 1));
  EXPECT_EQ(rig.node.aggregators_in_use(), kTenants - 1u) << "only its own";
  for (unsigned rank = 0; rank < 4; ++rank) {
    rig.in(home(rank, 1), gradient(RankSet::of(static_cast<Rank>(rank)), 1, 1));
  }
  EXPECT_EQ(rig.count(SwitchCounter::kDropUnknownChild), 4u) << "it is no child of the other job";
}

TEST(SwitchSharing, WhateverFreesAnAggregatorMakesRoomInTheQuota) {
  struct Row {
    const char* name;
    void (*free)(Jobs&);
  };
  const Row rows[] = {
      {"its PARAMETER", [](Jobs& rig) { rig.answer(1, 0); }},
      {"a RESEND", [](Jobs& rig) { rig.send(1, 0, 0, ATP_FLAG_RESEND); }},
      {"a FLUSH",
       [](Jobs& rig) {
         rig.in(kServer, of_job(bare(PacketType::kFlush, RankSet::first(2), 0), 1));
       }},
      {"the sweep",
       [](Jobs& rig) {
         rig.wait(2s);
         rig.enter(1);
       }},
      {"another job's PARAMETER, after the reclaim time",
       [](Jobs& rig) {
         rig.now += 2s;
         rig.answer(2, 0);
       }},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    Jobs rig({.quota = 1});
    rig.enter(1);
    rig.enter(2);
    ASSERT_TRUE(rig.keeps(1, 0));
    ASSERT_FALSE(rig.keeps(1, 1));
    row.free(rig);
    EXPECT_TRUE(rig.keeps(1, 2));
    EXPECT_FALSE(rig.keeps(1, 3));
  }
}

TEST(SwitchSharing, TheAggregatorsOfADeadJobCountUntilTheyAreFree) {
  Jobs rig({.quota = 1});
  rig.enter(1);
  ASSERT_TRUE(rig.keeps(1, 0));
  rig.depart(1);
  // This fills the table of jobs, so the departed job gives up its place.
  for (std::uint32_t job = 2; job < 6; ++job) rig.enter(job);
  ASSERT_EQ(rig.node.trees(), 4u);
  rig.depart(2);
  rig.enter(1);
  EXPECT_FALSE(rig.keeps(1, 7));
  rig.wait(2s);
  EXPECT_TRUE(rig.keeps(1, 8));
}

TEST(SwitchSharing, JobsThatHaveLeftMakeRoomWhenTheTableIsFull) {
  Jobs rig({});
  for (std::uint32_t job = 1; job <= 100; ++job) {
    rig.enter(job);
    EXPECT_TRUE(rig.keeps(job, job)) << job;
    rig.answer(job, job);
    rig.depart(job);
  }
  EXPECT_LE(rig.node.trees(), config().max_trees);
  EXPECT_EQ(rig.count(SwitchCounter::kDropRefused), 0u);
}

}  // namespace
}  // namespace atp::rig
