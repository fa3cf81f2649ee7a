#include <gtest/gtest.h>

#include <algorithm>
#include <deque>

#include "atp/core/dataplane/switch_jobs_test.h"

// What jobs get of a switch's aggregators while they contend for them: their parts
// (docs/inside/protocol §4, *Sharing*, rules 1 to 3).

namespace atp::rig {
namespace {

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
TEST(SwitchParts, AJobGetsNoMoreThanItsPartWhileAnotherFindsNone) {
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

// What the PARAMETER of a fragment says, if it comes with `came`.
std::uint32_t said(Jobs& rig, std::uint32_t job, std::uint64_t sequence, std::uint8_t came = 0) {
  Bytes bytes = rig.whose(parameter(RankSet::first(2), sequence), job);
  bytes[ATP_AT_PART] = came;
  const auto sent = rig.in(kServer, bytes);
  EXPECT_FALSE(sent.empty());
  return sent.empty() ? 0 : atp_part_of(sent[0].bytes[ATP_AT_PART]);
}

// What the switch's status says.
std::uint32_t part(const Jobs& rig, std::uint32_t job) {
  std::uint32_t part = 0;
  rig.node.for_each_tree([&](const Tree& tree, const atp_share&) {
    if (tree.job().job == job) part = rig.node.shares().part(tree.share());
  });
  return part;
}

TEST(SwitchParts, AParameterAndTheStatusSayHowManyAggregatorsTheJobMayHave) {
  struct Row {
    const char* name;
    SharingConfig sharing;
    std::uint32_t weight;       // of the job; the others' is 1
    std::uint32_t aggregators;  // that its tenant's jobs may hold together; 0: any number
    unsigned others;            // that have claimed
    std::uint32_t came;
    std::uint32_t said;
    std::uint32_t part;  // as its status says
  };
  const Row rows[] = {
      {"a job alone may have all", {}, 1, 0, 0, 0, 64, 64},
      {"two jobs have half each", {}, 1, 0, 1, 0, 32, 32},
      {"three have a third", {}, 1, 0, 2, 0, 21, 21},
      {"by weight", {}, 3, 0, 1, 0, 48, 48},
      {"a switch further up has fewer", {}, 1, 0, 1, 20, 20, 32},
      {"a switch further up has more", {}, 1, 0, 1, 40, 32, 32},
      {"no more than its quota", {.quota = 10}, 1, 0, 1, 0, 10, 10},
      {"its quota is more", {.quota = 40}, 1, 0, 1, 0, 32, 32},
      {"half of what its tenant's two jobs may hold", {}, 1, 9, 0, 0, 4, 4},
      {"but at least one", {}, 1, 1, 0, 0, 1, 1},
      {"nothing, first come, first served", {.first_come = true}, 1, 0, 1, 0, 0, 64},
      {"what came, first come, first served", {.first_come = true}, 1, 0, 1, 20, 20, 64},
      {"nothing with regions", {.partitions = 4}, 1, 0, 1, 0, 0, 16},
      {"all of its tenant's, first come, first served", {.first_come = true}, 1, 9, 0, 0, 0, 9},
      {"a quota that is less than a region", {.partitions = 4, .quota = 9}, 1, 0, 1, 0, 0, 9},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    TestQuotas quotas;
    quotas.by_tenant[1].weight = row.weight;
    quotas.by_tenant[1].aggregators = row.aggregators;
    Jobs rig(full_sets(row.sharing, &quotas),
             [](std::uint32_t job) { return static_cast<std::uint16_t>(job == 2 ? 2 : 1); });
    for (const std::uint32_t job : {1, 2, 3}) rig.enter(job);
    ASSERT_TRUE(rig.keeps(1, 0));
    for (unsigned other = 0; other < row.others; ++other) ASSERT_TRUE(rig.keeps(2 + other, 0));
    EXPECT_EQ(said(rig, 1, 0, atp_part_code(row.came)), row.said);
    EXPECT_EQ(part(rig, 1), row.part);
  }
}

// There is room for two jobs, each of the tenant with its number, unless the test says otherwise.
struct Two : Jobs {
  explicit Two(
      const Quotas* quotas,
      TenantOf tenant = [](std::uint32_t job) { return static_cast<std::uint16_t>(job); })
      : Jobs(of_two(quotas), tenant) {}
  // So that nothing is left of the first one's tree.
  void replace(std::uint32_t job, std::uint32_t by) {
    depart(job);
    enter(by);
    ASSERT_EQ(node.trees(), 2u);
  }
  static SwitchConfig of_two(const Quotas* quotas) {
    SwitchConfig config = full_sets({}, quotas);
    config.max_trees = 2;
    return config;
  }
};

TEST(SwitchParts, AJobCountsUntilAWholePeriodHasPassedWithoutIt) {
  for (const bool departs : {false, true}) {
    SCOPED_TRACE(departs);
    Two rig(nullptr);
    for (const std::uint32_t job : {1, 2}) rig.enter(job);
    ASSERT_TRUE(rig.keeps(2, 0)) << "claim number 0";
    rig.answer(2, 0);
    if (departs) rig.replace(2, 3);  // which has not claimed
    ASSERT_TRUE(rig.keeps(1, 1));
    for (std::uint32_t claim = 2; claim < 2 * ActiveJobs::kPeriod; ++claim) {
      EXPECT_EQ(said(rig, 1, claim - 1), 32u) << claim;
      ASSERT_TRUE(rig.keeps(1, claim));
    }
    EXPECT_EQ(said(rig, 1, 2 * ActiveJobs::kPeriod - 1), 64u);
  }
}

TEST(SwitchParts, AJobThatIsGoneCountsBesideTheNextOne) {
  Two rig(nullptr);
  for (const std::uint32_t job : {1, 2}) {
    rig.enter(job);
    ASSERT_TRUE(rig.keeps(job, 0));
  }
  rig.answer(2, 0);
  rig.replace(2, 3);
  EXPECT_EQ(said(rig, 1, 0), 32u) << "the new one has not claimed";
  EXPECT_EQ(said(rig, 3, 0), 21u) << "but would have a part";
  ASSERT_TRUE(rig.keeps(3, 1));
  EXPECT_EQ(said(rig, 1, 0), 21u);
}

TEST(SwitchParts, AJobThatComesBackWithAnotherWeightCountsWithThatOne) {
  TestQuotas quotas;
  Two rig(&quotas);
  for (const std::uint32_t job : {1, 2}) {
    rig.enter(job);
    ASSERT_TRUE(rig.keeps(job, 0));
  }
  rig.replace(1, 3);
  quotas.by_tenant[1].weight = 3;
  rig.replace(3, 1);
  EXPECT_EQ(said(rig, 1, 0), 48u);
  EXPECT_EQ(said(rig, 2, 0), 16u);
}

TEST(SwitchParts, AJobMayHaveAWeightOfItsOwn) {
  TestQuotas quotas;
  quotas.by_tenant[1].weight = 7;
  quotas.weights[1] = 3;
  const Jobs::TenantOf of_one = [](std::uint32_t job) -> std::uint16_t { return job == 1 ? 1 : 2; };
  const Jobs::TenantOf none = [](std::uint32_t) -> std::uint16_t { return 0; };
  for (const Jobs::TenantOf tenant : {of_one, none}) {
    SCOPED_TRACE(tenant(1));
    Two rig(&quotas, tenant);
    for (const std::uint32_t job : {1, 2}) {
      rig.enter(job);
      ASSERT_TRUE(rig.keeps(job, 0));
    }
    EXPECT_EQ(said(rig, 1, 0), 48u);
    EXPECT_EQ(said(rig, 2, 0), 16u);
  }
}

TEST(SwitchParts, APartFollowsAWeightAlthoughAllJobsTogetherWeighWhatTheyDid) {
  TestQuotas quotas;
  const auto weigh = [&](std::uint32_t first, std::uint32_t second) {
    quotas.by_tenant[1].weight = first;
    quotas.by_tenant[2].weight = second;
  };
  weigh(1, 3);
  Two rig(&quotas);
  for (const std::uint32_t job : {1, 2}) {
    rig.enter(job);
    ASSERT_TRUE(rig.keeps(job, 0));
  }
  EXPECT_EQ(said(rig, 1, 0), 16u);
  EXPECT_EQ(said(rig, 2, 0), 48u);
  weigh(3, 1);
  for (const std::uint32_t job : {1, 2}) {
    rig.replace(job, 3);
    rig.replace(3, job);
  }
  EXPECT_EQ(said(rig, 1, 0), 48u);
  EXPECT_EQ(said(rig, 2, 0), 16u);
}

TEST(SwitchParts, NoPartIsLessThanOne) {
  TestQuotas quotas;
  quotas.by_tenant[2].weight = 1000;
  Two rig(&quotas);
  for (const std::uint32_t job : {1, 2}) {
    rig.enter(job);
    ASSERT_TRUE(rig.keeps(job, 0));
  }
  EXPECT_EQ(said(rig, 1, 0), 1u);
}

TEST(SwitchParts, ATenantsJobsThatAreGoneHaveNoPartOfItsAggregators) {
  TestQuotas quotas;
  quotas.by_tenant[1].aggregators = 12;
  Two rig(&quotas, [](std::uint32_t job) -> std::uint16_t { return job < 3 ? 1 : 2; });
  for (const std::uint32_t job : {1, 2}) rig.enter(job);
  ASSERT_TRUE(rig.keeps(1, 0));
  EXPECT_EQ(said(rig, 1, 0), 6u);
  rig.replace(2, 3);
  EXPECT_EQ(said(rig, 1, 1), 12u);
  rig.replace(3, 2);
  EXPECT_EQ(said(rig, 1, 2), 6u);
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

TEST(SwitchParts, ContentionIsOverAfterAsManyClaimsAsThereAreAggregators) {
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

TEST(SwitchParts, AJobThatOnlyCollidesCountsForTheParts) {
  const TestQuotas quotas;
  Eight rig(&quotas);
  for (std::uint64_t sequence = 0; sequence < 8; ++sequence) ASSERT_TRUE(rig.keeps(1, sequence));
  EXPECT_EQ(said(rig, 1, 0), 8u);
  ASSERT_TRUE(rig.keeps(1, 8));
  ASSERT_FALSE(rig.keeps(2, 0));
  EXPECT_EQ(said(rig, 1, 1), 4u);
}

TEST(SwitchParts, AJobThatHoldsItsPartContendsForNothing) {
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
TEST(SwitchParts, JobsThatCompeteHoldTheirPartsInTheLongRun) {
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

}  // namespace
}  // namespace atp::rig
