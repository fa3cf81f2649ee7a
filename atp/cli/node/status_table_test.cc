#include "atp/cli/node/status_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

namespace atp {
namespace {

using nlohmann::json;

json switch_status() {
  return json::parse(R"({
    "role": "switch", "listen": "10.0.0.1:5501", "version": "1.2.3",
    "aggregators": {"total": 1024, "held": 12, "enough": 2048}, "sums_completed": 1000, "collisions": 0,
    "jobs": [{"job": 7, "incarnation": 3, "first_stream": 0, "streams": 2, "world_size": 4,
              "parent": "10.0.0.9:5500", "joined": [0, 1], "detached": [2], "left": [],
              "aggregators": {"held": 12}}],
    "drops": {"unknown_job": 5}})");
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
  json status = switch_status();
  json& job = status["jobs"][0];
  job["aggregators"] = {{"held", 12},        {"part", 768},    {"weight", 3},
                        {"gradients", 1000}, {"collided", 30}, {"gain", 0.21}};
  std::string table = status_table(status);
  EXPECT_NE(table.find("  768 (weight 3)     3.0 %  10.0.0.9:5500"), table.npos) << table;
  const std::string line =
      "  aggregators are scarce: 3.0 % of the gradients of job 7 found none; with 2,048 (now "
      "1,024): at most 21 % faster\n";
  EXPECT_NE(table.find(line), table.npos) << table;
  job["aggregators"]["gain"] = 0;
  table = status_table(status);
  EXPECT_NE(table.find("of job 7 found none\n"), table.npos)
      << "more would bring nothing: " << table;
  job["aggregators"].erase("gain");
  EXPECT_EQ(status_table(status), table) << "a node of an earlier version does not say";
  job["aggregators"]["collided"] = 10;
  EXPECT_EQ(status_table(status).find("scarce"), table.npos) << "1 % does not deserve a line";
}

TEST(StatusText, SaysOncePerJobThatAggregatorsAreScarce) {
  json status = switch_status();
  json& jobs = status["jobs"];
  jobs[0]["aggregators"] = {{"held", 12},       {"part", 512},     {"weight", 1},
                            {"gradients", 100}, {"collided", 100}, {"gain", 0.5}};
  jobs.push_back(jobs[0]);
  jobs[1]["first_stream"] = 2;
  jobs[1]["aggregators"]["collided"] = 0;
  jobs.push_back(jobs[0]);
  jobs[2]["job"] = 8;
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
  json status = switch_status();
  json& jobs = status["jobs"];
  jobs.push_back(jobs[0]);
  jobs[0]["tenant"] = "vision";
  jobs[1]["tenant"] = nullptr;  // in the status of earlier releases: no longer in the file
  const std::string table = status_table(status);
  EXPECT_NE(table.find("  job  incarnation  tenant  streams"), std::string::npos) << table;
  EXPECT_NE(table.find("    7            3  vision  "), std::string::npos) << table;
  EXPECT_NE(table.find("    7            3  -       "), std::string::npos) << table;
  EXPECT_EQ(jobs_in(status), 2u);
}

TEST(StatusText, SaysThatTheNodeDrainsAndHowManyJobsAreLeft) {
  json status = switch_status();
  const std::string before = status_table(status);
  status["draining"] = false;
  EXPECT_EQ(status_table(status), before);
  status["draining"] = true;
  status["jobs"].push_back(status["jobs"][0]);
  status["jobs"][1]["first_stream"] = 2;  // another stream range of the same job
  EXPECT_EQ(status_table(status).find("switch 10.0.0.1:5501 (atp 1.2.3)\n"
                                      "  draining, 1 job left\n"
                                      "  12 of 1,024 aggregators held"),
            0u)
      << status_table(status);
}

// Switches never add floats, so sums of floats are left out of the share.
TEST(StatusText, GivesTheShareSummedInSwitchesOfTheFragmentsThatCanBe) {
  json status = json::parse(R"({
    "role": "server", "listen": "10.0.0.9:5500", "version": "1.2.3", "has_switches": true,
    "fragments": 110, "fragments_as_floats": 10, "fragments_summed_in_switches": 95,
    "jobs": [], "drops": {}})");
  const auto second_line = [&status] {
    const std::string table = status_table(status);
    const std::size_t begin = table.find('\n') + 1;
    return table.substr(begin, table.find('\n', begin) - begin);
  };
  EXPECT_EQ(second_line(),
            "  110 fragments complete, 10 as floats; 95.0 % of the others summed in switches");
  status["has_switches"] = false;
  EXPECT_EQ(second_line(), "  110 fragments complete, 10 as floats");
}

TEST(StatusText, NamesTheRanksThatHoldUpAJobAndTheOneThatLagsMost) {
  json status = switch_status();
  json& job = status["jobs"][0];
  job["stuck"] = json::parse(R"({"ranks": [{"rank": 2, "host": "10.0.1.2"},
                                           {"rank": 3, "host": null}], "waited_s": 3.21,
                                 "operation": "sum #17"})");
  job["lateness"] = json::parse(R"([
    {"rank": 0, "first_p50_us": 10, "first_p99_us": 20, "last_p50_us": 0, "last_p99_us": 0},
    {"rank": 1, "first_p50_us": 900, "first_p99_us": 7000, "last_p50_us": 40200,
     "last_p99_us": 81000}])");
  const std::string table = status_table(status);
  EXPECT_NE(table.find("  job 7 has waited 3.2 s for ranks 2 (10.0.1.2), 3 in sum #17\n"
                       "  job 7: rank 1 lags most: its first packets by 0.9 ms (p99 7.0 ms), "
                       "its last by 40.2 ms (p99 81.0 ms)\n"),
            std::string::npos)
      << table;
  job["stuck"]["operation"] = nullptr;
  EXPECT_NE(status_table(status).find("ranks 2 (10.0.1.2), 3\n"), std::string::npos);
  job["stuck"] = nullptr;
  job["lateness"].erase(1);
  EXPECT_EQ(status_table(status), status_table(switch_status())) << "10 us do not deserve a line";
}

TEST(StatusText, CannotControlTheTerminal) {
  const std::string evil = "\x1b[31m\n";
  json status = switch_status();
  for (const char* key : {"role", "listen", "version"}) status[key] = evil;
  status["jobs"][0]["parent"] = evil;
  status["jobs"][0]["tenant"] = evil;
  status["drops"] = {{evil, 1}};
  const std::string table = status_table(status);
  EXPECT_EQ(table.find('\x1b'), std::string::npos) << table;
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 5) << table;
}

TEST(StatusText, ThrowsIfTheDocumentIsNotAStatus) {
  for (const char* text : {"{}", "[1]", R"({"role": 7})", R"({"role": "server"})"}) {
    EXPECT_THROW(status_table(json::parse(text)), json::exception) << text;
  }
}

TEST(StatusText, SaysWhyJobsHaveFailedInTheLastTenMinutes) {
  json status = json::parse(R"({
    "role": "server", "listen": "10.0.0.9:5500", "version": "1.2.3", "has_switches": true,
    "fragments": 110, "fragments_as_floats": 10, "fragments_summed_in_switches": 95,
    "jobs": [], "drops": {}})");
  const auto failure = [](int job, double ago_s) {
    return json{{"job", job},
                {"incarnation", 1},
                {"rank", 1},
                {"why", "rank 1 (10.0.1.1) left: it was\x1b killed"},
                {"ago_s", ago_s}};
  };
  status["failures"] = {failure(9, 601), failure(8, 300), failure(7, 0)};
  const std::string text = status_table(status);
  EXPECT_NE(text.find("  job 8 failed 300."), text.npos) << text;
  EXPECT_NE(text.find("  job 7 failed 0.0 s ago: rank 1 (10.0.1.1) left: it was"), text.npos)
      << text;
  EXPECT_EQ(text.find("job 9"), text.npos) << text;
  EXPECT_EQ(text.find('\x1b'), text.npos) << "no text from the network controls the terminal";
}

}  // namespace
}  // namespace atp
