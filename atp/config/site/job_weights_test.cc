#include "atp/config/site/job_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "atp/config/site/site_reader.h"
#include "atp/config/site/testing_site.h"
#include "atp/config/text/testing_mistakes.h"

namespace atp {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kText = R"(
racks: [{name: a, hosts: [{name: h, address: 10.0.0.1, ranks: 2}]}]
servers: [h]
jobs:
  - {job: 7, weight: 4}
  - {job: 100-4294967295, weight: 1000}
  - {job: 7, weight: 2, tenant: vision}
)";

TEST(JobWeights, AreByNumberAndTenant) {
  const Site site = site_of(kText);
  ASSERT_TRUE(site.weights);
  struct Row {
    std::uint32_t job;
    const char* tenant;
    std::uint32_t weight;  // 0: none
  };
  const Row rows[] = {{7, "", 4},
                      {8, "", 0},
                      {99, "", 0},
                      {100, "", 1000},
                      {UINT32_MAX, "", 1000},
                      {7, "vision", 2},
                      {100, "vision", 0},
                      {7, "speech", 0}};
  for (const Row& row : rows) {
    std::uint32_t found = 0;
    for (const JobWeight& entry : *site.weights) {
      if (entry.holds(row.job, row.tenant)) found += entry.weight;
    }
    EXPECT_EQ(found, row.weight) << row.job << " of " << row.tenant;
  }
  std::vector<std::string> names;
  for (const JobWeight& entry : *site.weights) names.push_back(entry.jobs_text());
  EXPECT_THAT(names, ElementsAre("job 7", "jobs 100-4294967295", "job 7 of vision"));
}

TEST(JobWeights, AFileMayHaveNone) {
  const std::string text = std::string(kText).substr(0, std::string(kText).find("jobs:"));
  EXPECT_FALSE(site_of(text).weights);
  EXPECT_TRUE(site_of(text + "jobs: []\n").weights);
}

TEST(JobWeights, EveryErrorNamesFileLineAndKey) {
  const std::string job =
      "expected a job's number from 0 to 4294967295, or a range such as 100-199";
  const std::string weight = "expected a whole number from 1 to 1000";
  const Mistake mistakes[] = {
      {"no weight at all", "weight: 4", "weight: 0", "f:5: jobs[0].weight:", weight},
      {"less than none", "weight: 4", "weight: -1", "f:5: jobs[0].weight:", weight},
      {"more than there is", "weight: 4", "weight: 1001", "f:5: jobs[0].weight:", weight},
      {"more than a number holds", "weight: 4", "weight: 99999999999999999999",
       "f:5: jobs[0].weight:", weight},
      {"not a number", "weight: 4", "weight: high", "f:5: jobs[0].weight:", weight},
      {"a fraction", "weight: 4", "weight: 1.5", "f:5: jobs[0].weight:", weight},
      {"no weight", ", weight: 4", "", "f:5: jobs[0].weight:", "is missing"},
      {"no job", "job: 7, weight: 4", "weight: 4", "f:5: jobs[0].job:", "is missing"},
      {"a name as job", "job: 7, weight: 4", "job: train, weight: 4", "f:5: jobs[0].job:", job},
      {"a negative job", "job: 7, weight: 4", "job: -7, weight: 4", "f:5: jobs[0].job:", job},
      {"a job beyond 32 bits", "100-4294967295", "100-4294967296", "f:6: jobs[1].job:", job},
      {"a range from its end", "100-4294967295", "100-99", "f:6: jobs[1].job:", job},
      {"a range without an end", "100-4294967295", "100-", "f:6: jobs[1].job:", job},
      {"three numbers", "100-4294967295", "100-200-300", "f:6: jobs[1].job:", job},
      {"a job twice", "100-4294967295", "0-7", "f:6: jobs[1]:",
       "gives a weight to jobs 0-7, but jobs[0] (line 5) gives one to job 7; name each job once"},
      {"a tenant's job twice", "{job: 7, weight: 4}", "{job: 0-9, weight: 4, tenant: vision}",
       "f:7: jobs[2]:", "jobs[0] (line 5) gives one to jobs 0-9 of vision"},
      {"no tenant's name", "tenant: vision", "tenant: \"a b\"",
       "f:7: jobs[2].tenant:", "a name of letters, digits"},
      {"an unknown key", "tenant: vision", "tennant: vision",
       "f:7: jobs[2].\"tennant\":", "did you mean tenant?"},
      {"a map instead of a list",
       "jobs:\n  - {job: 7, weight: 4}\n  - {job: 100-4294967295, "
       "weight: 1000}\n  - {job: 7, weight: 2, tenant: vision}\n",
       "jobs: {7: 4}\n", "f:4: jobs:", "expected a list of weights: {job: 7, weight: 4}"},
  };
  for (const Mistake& mistake : mistakes) {
    expect_refused(kText, mistake, [](const std::string& text) { return parse_site(text, "f"); });
  }
}

TEST(JobWeights, HaveALimitedNumberOfEntries) {
  std::string text = std::string(kText).substr(0, std::string(kText).find("jobs:")) + "jobs:\n";
  for (int job = 0; job < 1024; ++job)
    text += "  - {job: " + std::to_string(job) + ", weight: 2}\n";
  EXPECT_EQ(site_of(text).weights->size(), 1024u);
  const Result<Site> one_more = parse_site(text + "  - {job: 1024, weight: 2}\n", "f");
  ASSERT_FALSE(one_more);
  EXPECT_THAT(one_more.error().message, HasSubstr("found 1025 entries, expected at most 1024"));
}

}  // namespace
}  // namespace atp
