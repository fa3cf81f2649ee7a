#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <vector>

#include "atp/core/dataplane/switch_rig_test.h"
#include "atp/core/testing_quotas.h"

// How jobs share a switch's aggregators: first come, first served, by parts while they contend, by
// a static partition, or within a quota (docs/protocol.md §4, *Sharing*).

namespace atp::rig {
namespace {

Bytes of_job(Bytes bytes, std::uint32_t job, std::uint32_t incarnation = kJob.incarnation,
             std::uint16_t tenant = 0) {
  atp_store32(&bytes[ATP_AT_JOB], job);
  atp_store32(&bytes[ATP_AT_INCARNATION], incarnation);
  atp_store16(&bytes[ATP_AT_TENANT], tenant);
  return bytes;
}

SwitchConfig sharing(const SharingConfig& with, const Quotas* quotas) {
  SwitchConfig config = rig::config();
  config.places = 1;
  config.sharing = with;
  config.quotas = quotas;
  return config;
}

struct Jobs : Rig {
  using TenantOf = std::uint16_t (*)(std::uint32_t job);
  explicit Jobs(
      const SharingConfig& with, const Quotas* quotas = nullptr,
      TenantOf tenant = [](std::uint32_t) -> std::uint16_t { return 0; })
      : Jobs(sharing(with, quotas), tenant) {}
  explicit Jobs(const SwitchConfig& with, TenantOf tenant) : Rig(with), tenant_of(tenant) {}

  // Joins two of the job's four ranks, so that no sum is complete.
  void enter(std::uint32_t job, std::uint32_t incarnation = kJob.incarnation) {
    for (unsigned rank = 0; rank < 2; ++rank) {
      in(child(rank), of_job(join(rank), job, incarnation, tenant_of(job)));
      JoinAck ack = ack_body();
      ack.nonce = nonce(rank);
      const RankSet one = RankSet::of(static_cast<Rank>(rank));
      in(kServer, of_job(join_ack(one, ack), job, incarnation, tenant_of(job)));
    }
  }
  void depart(std::uint32_t job) {
    for (unsigned rank = 0; rank < 2; ++rank) {
      in(child(rank), whose(leave(rank, nonce(rank)), job));
    }
  }
  std::vector<Sent> send(std::uint32_t job, unsigned rank, std::uint64_t sequence,
                         unsigned flags = 0) {
    return in(child(rank),
              whose(gradient(RankSet::of(static_cast<Rank>(rank)), sequence, 1, flags), job));
  }
  // Sends the first contribution of a fragment; returns whether the switch keeps it.
  bool keeps(std::uint32_t job, std::uint64_t sequence) { return send(job, 0, sequence).empty(); }
  void answer(std::uint32_t job, std::uint64_t sequence) {
    in(kServer, whose(parameter(RankSet::first(2), sequence), job));
  }
  Bytes whose(Bytes bytes, std::uint32_t job) const {
    return of_job(std::move(bytes), job, kJob.incarnation, tenant_of(job));
  }

  const TenantOf tenant_of;
};

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
  Rig rig;
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

// How many of the first 64 fragments of a job a switch of 64 aggregators keeps.
unsigned kept(Jobs& rig, std::uint32_t job) {
  unsigned kept = 0;
  for (std::uint64_t sequence = 0; sequence < 64; ++sequence) kept += rig.keeps(job, sequence);
  return kept;
}

SwitchConfig full_sets(const SharingConfig& with, const Quotas* quotas = nullptr) {
  SwitchConfig config = sharing(with, quotas);
  config.places = kMostPlaces;
  return config;
}

// The first job holds what it can. Then the second one sends 64 fragments, and after these the
// first one more. A fragment may find all of its places held although another aggregator is free.
TEST(SwitchSharing, AJobGetsNoMoreThanItsPartWhileAnotherFindsNone) {
  struct Row {
    const char* name;
    SharingConfig sharing;
    std::uint32_t weights[2];
    unsigned first, least, most;  // that the first job holds at least, and the second
    bool may_claim;               // the first job when one of its own has become free
  };
  const Row rows[] = {
      {"a job alone may hold all", {}, {1, 1}, 60, 0, 4, false},
      {"with first come, first served it may so again",
       {.first_come = true},
       {1, 1},
       60,
       0,
       4,
       true},
      {"a job within its part may claim", {.quota = 40}, {3, 1}, 40, 16, 24, true},
      {"a lighter job is beyond its part", {.quota = 40}, {1, 3}, 40, 20, 24, false},
      {"a quota is less than a part, so nobody contends", {.quota = 10}, {1, 9}, 10, 10, 10, true},
      {"no part is less than one", {.quota = 63}, {1, 1000}, 60, 1, 4, false},
      {"a region has no parts", {.partitions = 2}, {1, 1000}, 32, 32, 32, true},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    TestQuotas quotas;
    for (std::uint16_t i = 0; i < 2; ++i) quotas.by_tenant[i + 1u].weight = row.weights[i];
    Jobs rig(full_sets(row.sharing, &quotas),
             [](std::uint32_t job) { return static_cast<std::uint16_t>(job); });
    rig.enter(1);
    rig.enter(2);
    EXPECT_GE(kept(rig, 1), row.first);
    const unsigned second = kept(rig, 2);
    EXPECT_GE(second, row.least);
    EXPECT_LE(second, row.most);
    for (const std::uint64_t free : {0, 1, 39}) rig.answer(1, free);
    unsigned again = 0;
    for (std::uint64_t sequence = 64; sequence < 64 + kWmax / 2; ++sequence) {
      again += rig.keeps(1, sequence);
    }
    EXPECT_EQ(again > 0, row.may_claim);
  }
}

TEST(SwitchSharing, AJobThatHoldsNothingAnyMoreLeavesItsPart) {
  Jobs rig(full_sets({}, nullptr), [](std::uint32_t) -> std::uint16_t { return 0; });
  rig.enter(1);
  rig.enter(2);
  ASSERT_TRUE(rig.keeps(1, 0));
  kept(rig, 2);
  kept(rig, 1);  // so that aggregators are contested
  for (std::uint64_t sequence = 0; sequence < 64; ++sequence) rig.answer(1, sequence);
  const std::uint64_t passed = rig.count(SwitchCounter::kForwardedOverQuota);
  for (std::uint64_t sequence = 50; sequence < 64; ++sequence) {
    rig.answer(2, sequence);
    rig.keeps(2, sequence + 14);
  }
  EXPECT_EQ(rig.count(SwitchCounter::kForwardedOverQuota), passed) << "its part is all of them";
}

// Every fragment finds a free one of eight aggregators.
struct Eight : Jobs {
  explicit Eight(const Quotas* quotas)
      : Jobs(of_eight(quotas), [](std::uint32_t job) { return static_cast<std::uint16_t>(job); }) {
    enter(1);
    enter(2);
  }
  static SwitchConfig of_eight(const Quotas* quotas) {
    SwitchConfig config = full_sets({}, quotas);
    config.aggregators = 8;
    return config;
  }
};

TEST(SwitchSharing, ContentionIsOverAfterAsManyClaimsAsThereAreAggregators) {
  const TestQuotas quotas;
  Eight rig(&quotas);
  for (std::uint64_t sequence = 0; sequence < 8; ++sequence) ASSERT_TRUE(rig.keeps(1, sequence));
  ASSERT_FALSE(rig.keeps(2, 0));
  rig.answer(1, 0);
  rig.answer(1, 1);
  EXPECT_FALSE(rig.keeps(1, 9)) << "though the other holds none yet";
  EXPECT_TRUE(rig.keeps(2, 1));
  for (std::uint64_t sequence = 2; sequence <= 8; ++sequence) {
    EXPECT_FALSE(rig.keeps(1, 8 + sequence)) << sequence;
    EXPECT_TRUE(rig.keeps(2, sequence));
    rig.answer(2, sequence);
  }
  EXPECT_TRUE(rig.keeps(1, 17));
}

TEST(SwitchSharing, AJobThatHoldsItsPartContendsForNothing) {
  TestQuotas quotas;
  quotas.by_tenant[1].weight = 3;
  Eight rig(&quotas);
  for (std::uint64_t sequence = 0; sequence < 5; ++sequence) ASSERT_TRUE(rig.keeps(1, sequence));
  for (std::uint64_t sequence = 0; sequence < 3; ++sequence) ASSERT_TRUE(rig.keeps(2, sequence));
  ASSERT_FALSE(rig.keeps(2, 3)) << "it holds its part of two already";
  rig.answer(1, 0);
  EXPECT_TRUE(rig.keeps(2, 4));
}

// Two jobs, each with as many fragments under way as there are aggregators for both.
TEST(SwitchSharing, JobsThatCompeteHoldTheirPartsInTheLongRun) {
  constexpr std::uint32_t kAll = 2 * kWmax;
  struct Row {
    const char* name;
    bool first_come;
    std::uint32_t weights[2];
    unsigned first;  // what the first job holds in the end
  };
  const Row rows[] = {{"equal", false, {1, 1}, 16},
                      {"three to one", false, {3, 1}, 24},
                      {"one to seven", false, {1, 7}, 4},
                      {"weights mean nothing for first come, first served", true, {3, 1}, 16}};
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    TestQuotas quotas;
    for (std::uint16_t i = 0; i < 2; ++i) quotas.by_tenant[i + 1u].weight = row.weights[i];
    SwitchConfig config = full_sets({.first_come = row.first_come}, &quotas);
    config.aggregators = kAll;
    Jobs rig(config, [](std::uint32_t job) { return static_cast<std::uint16_t>(job); });
    rig.enter(1);
    rig.enter(2);
    std::deque<bool> under_way[3];  // whether the switch keeps it
    for (std::uint64_t sequence = 0; sequence < 2000; ++sequence) {
      for (const std::uint32_t job : {1u, 2u}) {
        if (sequence >= kAll) {
          rig.answer(job, sequence - kAll);
          under_way[job].pop_front();
        }
        under_way[job].push_back(rig.keeps(job, sequence));
      }
    }
    const auto held = [&](int job) {
      return static_cast<double>(std::count(under_way[job].begin(), under_way[job].end(), true));
    };
    EXPECT_NEAR(held(1), row.first, 4);
    EXPECT_NEAR(held(2), kAll - row.first, 4);
    EXPECT_EQ(static_cast<double>(rig.node.aggregators_in_use()), held(1) + held(2));
  }
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
