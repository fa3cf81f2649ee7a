#include "atp/cli/status/status_table.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace atp {
namespace {

NodeStatus switch_status() {
  NodeStatus status{.role = "switch",
                    .listen = "10.0.0.1:5501",
                    .version = "1.2.3",
                    .drops = {{"unknown_job", 5}},
                    .aggregators = {.total = 1024, .held = 12, .enough = 2048},
                    .sums_completed = 1000};
  status.jobs.push_back({.job = 7,
                         .incarnation = 3,
                         .streams = 2,
                         .world_size = 4,
                         .joined = RankSet::first(2),
                         .detached = RankSet::of(2),
                         .parent = "10.0.0.9:5500",
                         .aggregators = {.held = 12}});
  return status;
}

NodeStatus server_status() {
  return {.role = "server",
          .listen = "10.0.0.9:5500",
          .version = "1.2.3",
          .fragments = 110,
          .fragments_summed_in_switches = 95,
          .fragments_as_floats = 10,
          .has_switches = true};
}

TEST(StatusText, ShowsASwitchAsATable) {
  EXPECT_EQ(status_table(switch_status()),
            "switch 10.0.0.1:5501 (atp 1.2.3)\n"
            "  12 of 1,024 aggregators held; 1,000 sums completed, 0 gradients collided\n"
            "  job  incarnation  streams  workers here  aggregators held  part  collided         "
            "parent  remarks\n"
            "    7            3      0-1        2 of 4                12     -         -  "
            "10.0.0.9:5500  rank 2 detached\n"
            "  dropped: unknown_job 5\n");
}

TEST(StatusText, SaysWhichJobsFoundTooFewAggregatorsAndWhatMoreWouldBring) {
  NodeStatus status = switch_status();
  JobAggregators& of_job = status.jobs[0].aggregators;
  of_job = {.part = 768, .weight = 3, .held = 12, .gradients = 1000, .collided = 30, .gain = 0.21};
  std::string table = status_table(status);
  EXPECT_NE(table.find("  768 (weight 3)     3.0 %  10.0.0.9:5500"), table.npos) << table;
  const std::string line =
      "  aggregators are scarce: 3.0 % of the gradients of job 7 found none; with 2,048 (now "
      "1,024): at most 21 % faster\n";
  EXPECT_NE(table.find(line), table.npos) << table;
  of_job.gain = 0;
  table = status_table(status);
  EXPECT_NE(table.find("of job 7 found none\n"), table.npos)
      << "more would bring nothing: " << table;
  of_job.collided = 10;
  EXPECT_EQ(status_table(status).find("scarce"), table.npos) << "1 % does not deserve a line";
}

TEST(StatusText, SaysOncePerJobThatAggregatorsAreScarce) {
  NodeStatus status = switch_status();
  status.jobs.resize(3, status.jobs[0]);
  for (JobStatus& job : status.jobs) {
    job.aggregators = {.part = 512, .weight = 1, .gradients = 100, .collided = 100, .gain = 0.5};
  }
  status.jobs[1].first_stream = 2;
  status.jobs[1].aggregators.collided = 0;
  status.jobs[2].job = 8;
  const std::string table = status_table(status);
  const std::string scarce = "  aggregators are scarce: ";
  EXPECT_NE(table.find(
                scarce +
                "50.0 % of the gradients of job 7 found none; with 2,048 (now 1,024): at most 50 % "
                "faster\n" +
                scarce + "100.0 % of the gradients of job 8 found none;"),
            table.npos)
      << table;
}

TEST(StatusText, NamesTheTenantsOfJobsOnNodesWithKeys) {
  NodeStatus status = switch_status();
  status.jobs.resize(2, status.jobs[0]);
  status.jobs[0].tenant = "vision";
  const std::string table = status_table(status);
  EXPECT_NE(table.find("  job  incarnation  tenant  streams"), std::string::npos) << table;
  EXPECT_NE(table.find("    7            3  vision  "), std::string::npos) << table;
  EXPECT_NE(table.find("    7            3  -       "), std::string::npos) << table;
  EXPECT_EQ(jobs_in(status.jobs), 2u);
}

TEST(StatusText, SaysThatTheNodeDrainsAndHowManyJobsAreLeft) {
  NodeStatus status = switch_status();
  status.draining = true;
  status.jobs.resize(2, status.jobs[0]);
  status.jobs[1].first_stream = 2;  // another stream range of the same job
  EXPECT_EQ(status_table(status).find("switch 10.0.0.1:5501 (atp 1.2.3)\n"
                                      "  draining, 1 job left\n"
                                      "  12 of 1,024 aggregators held"),
            0u)
      << status_table(status);
}

// Switches never add floats, so sums of floats are left out of the share.
TEST(StatusText, GivesTheShareSummedInSwitchesOfTheFragmentsThatCanBe) {
  NodeStatus status = server_status();
  const auto second_line = [&status] {
    const std::string table = status_table(status);
    const std::size_t begin = table.find('\n') + 1;
    return table.substr(begin, table.find('\n', begin) - begin);
  };
  EXPECT_EQ(second_line(),
            "  110 fragments complete, 10 as floats; 95.0 % of the others summed in switches");
  status.has_switches = false;
  EXPECT_EQ(second_line(), "  110 fragments complete, 10 as floats");
}

TEST(StatusText, NamesTheRanksThatHoldUpAJobAndTheOneThatLagsMost) {
  NodeStatus status = switch_status();
  JobStatus& job = status.jobs[0];
  job.stuck = {.ranks = {{2, "10.0.1.2"}, {3, ""}}, .waited_s = 3.21, .operation = "sum #17"};
  job.lateness = {{.rank = 0, .first_p50_us = 10, .first_p99_us = 20},
                  {.rank = 1,
                   .first_p50_us = 900,
                   .first_p99_us = 7000,
                   .last_p50_us = 40'200,
                   .last_p99_us = 81'000}};
  const std::string table = status_table(status);
  EXPECT_NE(
      table.find("  job 7 waits for ranks 2 (10.0.1.2), 3 in sum #17: 3.2 s so far\n"
                 "  job 7: straggler rank 1: its first packets are late by 0.9 ms (p99 7.0 ms), "
                 "its last by 40.2 ms (p99 81.0 ms)\n"),
      std::string::npos)
      << table;
  job.stuck->operation.clear();
  EXPECT_NE(status_table(status).find("ranks 2 (10.0.1.2), 3: 3.2 s"), std::string::npos);
  job.stuck.reset();
  job.lateness.pop_back();
  EXPECT_EQ(status_table(status), status_table(switch_status())) << "10 us do not deserve a line";
}

TEST(StatusText, SaysWhyJobsHaveFailedInTheLastTenMinutes) {
  NodeStatus status = server_status();
  for (const auto& [job, ago_s] : {std::pair{9u, 601.0}, {8u, 300.0}, {7u, 0.0}}) {
    status.failures.push_back(
        {.job = job, .why = "rank 1 (10.0.1.1) left: killed", .ago_s = ago_s});
  }
  const std::string text = status_table(status);
  EXPECT_NE(text.find("  job 8 failed 300."), text.npos) << text;
  EXPECT_NE(text.find("  job 7 failed 0.0 s ago: rank 1 (10.0.1.1) left: killed"), text.npos)
      << text;
  EXPECT_EQ(text.find("job 9"), text.npos) << text;
}

}  // namespace
}  // namespace atp
