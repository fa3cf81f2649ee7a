#include "atp/core/tenant.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace atp {
namespace {

constexpr std::uint16_t kTenant = 7;
constexpr std::uint16_t kOther = 8;
constexpr std::uint32_t kJob = 5;  // the one that wants to begin
constexpr std::size_t kMiB = std::size_t{1} << 20;

struct Range {
  std::uint16_t tenant = kTenant;
  std::uint32_t job = 0;
  std::size_t bytes = 0;
};

TEST(QuotaCheck, CountsTheTenantsJobsAndTheirBytes) {
  const Refusal too_many{RefusalReason::kTenantJobs, 2};
  const struct {
    std::string what;
    Quota quota;
    std::vector<Range> known;  // in the order of the jobs
    Refusal refusal;           // of a range of 1 MiB
  } cases[] = {
      {"the first job", {.jobs = 1, .bytes = kMiB}, {}, {}},
      {"one job less than it may have", {.jobs = 2}, {{.job = 1}}, {}},
      {"as many as it may have", {.jobs = 2}, {{.job = 1}, {.job = 9}}, too_many},
      {"two ranges of one other job", {.jobs = 2}, {{.job = 1}, {.job = 1}}, {}},
      {"two ranges of two others", {.jobs = 2}, {{.job = 1}, {.job = 1}, {.job = 2}}, too_many},
      {"one more range of the same job", {.jobs = 2}, {{.job = 1}, {.job = kJob}}, {}},
      {"the job between two others",
       {.jobs = 2},
       {{.job = 1}, {.job = kJob}, {.job = 9}},
       too_many},
      {"a job of others with the same number", {.jobs = 1}, {{kOther, kJob}}, {}},
      {"jobs of others", {.jobs = 2}, {{.job = 1}, {kOther, 2}, {kOther, 3}}, {}},
      {"a job of others between two ranges",
       {.jobs = 2},
       {{.job = 1}, {kOther, 1}, {.job = 1}},
       {}},
      {"no quota", {}, {{.job = 1, .bytes = 99 * kMiB}, {.job = 2}}, {}},
      {"exactly the bytes that are left", {.bytes = 3 * kMiB}, {{.job = 1, .bytes = 2 * kMiB}}, {}},
      {"one byte more than is left",
       {.bytes = 3 * kMiB},
       {{.job = 1, .bytes = 2 * kMiB + 1}},
       memory_refusal(kMiB - 1, kMiB, RefusalReason::kTenantMemory)},
      {"its own other range counts",
       {.bytes = 3 * kMiB},
       {{.job = kJob, .bytes = 2 * kMiB}, {.job = 6, .bytes = kMiB}},
       memory_refusal(0, kMiB, RefusalReason::kTenantMemory)},
      {"the bytes of others do not", {.bytes = kMiB}, {{kOther, 1, 9 * kMiB}}, {}},
      {"it holds more than a new quota allows",
       {.bytes = kMiB},
       {{.job = 1, .bytes = 9 * kMiB}},
       memory_refusal(0, kMiB, RefusalReason::kTenantMemory)},
  };
  for (const auto& c : cases) {
    QuotaCheck check(c.quota, {kJob, 1, kTenant});
    for (const Range& range : c.known) {
      check.note({range.job, 1, range.tenant}, range.bytes);
    }
    EXPECT_EQ(check.refusal(kMiB), c.refusal) << c.what;
  }
}

}  // namespace
}  // namespace atp
