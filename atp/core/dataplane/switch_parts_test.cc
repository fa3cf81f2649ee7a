#include <gtest/gtest.h>

#include <algorithm>
#include <deque>

#include "atp/core/dataplane/switch_jobs_test.h"

// What jobs get of a switch's aggregators while they contend for them: their parts
// (docs/protocol.md §4, *Sharing*, rules 1 and 2).

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

TEST(SwitchParts, AJobThatHoldsNothingAnyMoreLeavesItsPart) {
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
