#include "atp/cli/node/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "atp/core/dataplane/switch_jobs_test.h"

namespace atp {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(CounterWatch, ReportsEachRiseOnce) {
  CounterWatch watch({{"leaves", "rank left", "ranks left"}, {"absent", "never", "never"}});
  EXPECT_THAT(watch.lines({{"leaves", 0}}), IsEmpty());
  EXPECT_THAT(watch.lines({{"x", 1}, {"leaves", 2}}), ElementsAre("2 ranks left (2 so far)"));
  EXPECT_THAT(watch.lines({{"leaves", 2}}), IsEmpty());
  EXPECT_THAT(watch.lines({{"leaves", 3}}), ElementsAre("1 rank left (3 so far)"));
  EXPECT_THAT(watch.lines({{"leaves", 7}}), ElementsAre("4 ranks left (7 so far)"));
}

// Jobs of two children each that share a switch of eight aggregators.
TEST(SwitchStatus, SaysWhatMoreAggregatorsWouldBringToEachJob) {
  struct Row {
    const char* name;
    SharingConfig sharing;
    std::uint64_t sent[2];  // fragments, by the first job and then by the second
    double gains[2];
    std::uint64_t enough;
  };
  const Row rows[] = {
      {"all have found one", {}, {4, 4}, {0, 0}, 8},
      {"half of one job's have not", {}, {16, 0}, {0.5, 0}, 32},
      {"one job holds all, and none is left for the other", {}, {8, 8}, {0, 1}, 32},
      {"a quota binds both", {.quota = 4}, {8, 8}, {0, 0}, 32},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    SwitchConfig config = rig::sharing(row.sharing, nullptr);
    config.aggregators = 8;
    config.places = kMostPlaces;
    rig::Jobs rig(config, [](std::uint32_t) -> std::uint16_t { return 0; });
    for (const std::uint32_t job : {0, 1}) rig.enter(job);
    rig.enter(0, rig::kJob.incarnation + 1);  // which sends nothing, and shares what the first has
    for (const std::uint32_t job : {0, 1}) {
      for (std::uint64_t sequence = 0; sequence < row.sent[job]; ++sequence) {
        rig.send(job, 0, sequence);
      }
    }
    const NodeStatus status = status_of("switch", "10.0.0.1:5501", rig.node, rig.now, {}, nullptr);
    EXPECT_EQ(status.aggregators.enough, row.enough);
    EXPECT_EQ(status.jobs.size(), 3u);
    for (const JobStatus& job : status.jobs) {
      EXPECT_EQ(job.aggregators.gain, row.gains[job.job]) << job.job;
    }
  }
}

}  // namespace
}  // namespace atp
