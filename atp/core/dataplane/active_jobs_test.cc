#include "atp/core/dataplane/active_jobs.h"

#include <gtest/gtest.h>

namespace atp {
namespace {

struct Job {
  ActiveJobs::Period last = 0;
  std::uint32_t weight;
};

void claims(ActiveJobs& jobs, std::uint32_t count) {
  for (; count > 0; --count) jobs.count_claim();
}
void periods(ActiveJobs& jobs, unsigned count) { claims(jobs, count * ActiveJobs::kPeriod); }

TEST(ActiveJobs, AJobCountsUntilAWholePeriodHasPassedWithoutIt) {
  const struct {
    const char* name;
    std::uint32_t aggregators, period;
  } cases[] = {{"a small table", 1, ActiveJobs::kPeriod}, {"a large one", 1000, 1000}};
  for (const auto& c : cases) {
    for (const std::uint32_t before : {0u, c.period - 1}) {  // claims, in the same period
      SCOPED_TRACE(c.name);
      ActiveJobs jobs(c.aggregators);
      Job job{.weight = 3};
      EXPECT_FALSE(jobs.active(job.last));
      EXPECT_EQ(jobs.weight(), 0u);
      claims(jobs, before);
      jobs.note(job.last, job.weight);
      claims(jobs, 2 * c.period - 1 - before);
      EXPECT_TRUE(jobs.active(job.last));
      EXPECT_EQ(jobs.weight(), 3u);
      jobs.count_claim();
      EXPECT_FALSE(jobs.active(job.last));
      EXPECT_EQ(jobs.weight(), 0u);
    }
  }
}

TEST(ActiveJobs, AJobCountsOnceHoweverOftenItIsActive) {
  ActiveJobs jobs(1);
  Job often{.weight = 3}, once{.weight = 1};
  jobs.note(once.last, once.weight);
  for (int period = 0; period < 4; ++period) {
    for (int i = 0; i < 2; ++i) jobs.note(often.last, often.weight);
    EXPECT_EQ(jobs.weight(), period < 2 ? 4u : 3u);
    periods(jobs, 1);
  }
}

TEST(ActiveJobs, AJobThatIsActiveCountsWithItsNewWeightOrIsForgotten) {
  for (const unsigned since : {0u, 1u, 2u}) {  // periods
    SCOPED_TRACE(since);
    ActiveJobs jobs(1);
    Job job{.weight = 3}, other{.weight = 1};
    jobs.note(job.last, job.weight);
    periods(jobs, since);
    jobs.note(other.last, other.weight);
    jobs.reweigh(job.last, 3, 2);
    EXPECT_EQ(jobs.weight(), since < 2 ? 3u : 1u);
    jobs.reweigh(job.last, 2, 9);
    EXPECT_EQ(jobs.weight(), since < 2 ? 10u : 1u);
    jobs.forget(job.last, 9);
    EXPECT_EQ(jobs.weight(), 1u);
    EXPECT_FALSE(jobs.active(job.last));
  }
}

}  // namespace
}  // namespace atp
