#include "atp/cli/metrics/node_metrics.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "atp/core/dataplane/switch_counter.h"
#include "atp/core/server/server_counter.h"
#include "atp/driver/udp/counters.h"

namespace atp {
namespace {

using Json = nlohmann::ordered_json;
using testing::HasSubstr;
using testing::Not;

template <class Enum>
CounterSnapshot counters_of() {
  CounterSnapshot counters;
  std::uint64_t value = 1001;  // differs from every other sample's
  const auto add = [&](std::string_view name, std::uint64_t) {
    counters.emplace_back(name, value++);
  };
  Counters<Enum>().for_each(add);
  UdpCounters().for_each(add);
  add("udp_receive_drops", 0);
  add("outbox_lost", 0);
  return counters;
}

NodeStatus status(const std::string& role) {
  NodeStatus status{
      .role = role,
      .listen = "10.0.0.1:5501",
      .version = "1.2",
      .counters = role == "switch" ? counters_of<SwitchCounter>() : counters_of<ServerCounter>(),
      .aggregators = {.total = 4096, .enough = 8192}};
  status.jobs.push_back(
      {.job = 7,
       .incarnation = 4,
       .world_size = 3,
       .joined = RankSet::first(2),
       .left = RankSet::of(2),
       .fragments = 12,
       .aggregators = {
           .size = 4096, .part = 2048, .held = 5, .gradients = 90, .collided = 9, .gain = 0.2}});
  if (role == "switch") {
    status.counters.emplace_back("aggregators_in_use", 5);
    status.counters.emplace_back("trees", 1);
  }
  return status;
}

std::string text_of(const NodeStatus& status) {
  MetricsText metrics;
  add_node_metrics(status, metrics);
  add_process_metrics(metrics);
  return metrics.text();
}

std::string read(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::string docs() {
  return (std::filesystem::path(__FILE__).parent_path() / "../../../docs/operate/").string();
}

TEST(NodeMetrics, HaveConventionalNames) {
  std::set<std::string_view> names;
  for (const MetricInfo& info : node_metrics()) {
    const std::string name(info.name);
    EXPECT_TRUE(names.insert(info.name).second) << name << " twice";
    EXPECT_TRUE(std::regex_match(name, std::regex("(atp|process)(_[a-z]+)+"))) << name;
    EXPECT_EQ(name.ends_with("_total"), info.type == MetricType::kCounter) << name;
    EXPECT_EQ(name.find("_ms"), std::string::npos) << name << ": seconds";
    EXPECT_TRUE(info.help.ends_with(".")) << name;
  }
}

// A new counter needs a metric that explains it.
TEST(NodeMetrics, CoverEveryCounterOfANode) {
  for (const std::string role : {"switch", "server"}) {
    const NodeStatus all = status(role);
    const std::string text = text_of(all);
    for (const auto& [name, value] : all.counters) {
      const double unit = name == "process_stopped_ms" ? 1e-3 : 1;
      EXPECT_THAT(text, HasSubstr(fmt::format(" {}\n", static_cast<double>(value) * unit)))
          << role << ' ' << name;
    }
  }
}

TEST(NodeMetrics, BelongToOneRoleOnly) {
  EXPECT_THAT(text_of(status("switch")), Not(HasSubstr("atp_server_")));
  EXPECT_THAT(text_of(status("server")), Not(HasSubstr("atp_switch_")));
}

TEST(NodeMetrics, ReportStatesStuckRanksAndLateRanks) {
  NodeStatus one = status("server");
  one.jobs[0].stuck = {.ranks = {{2, ""}}, .waited_s = 3.25};
  one.jobs[0].lateness = {{.rank = 2,
                           .operations = 40,
                           .first_p50_us = 1500,
                           .first_p99_us = 2'000'000,
                           .last_p50_us = 3,
                           .last_p99_us = 4}};
  const std::string text = text_of(one);
  const std::string job = R"({job_id="7",incarnation="4",first_stream="0",)";
  for (const std::string& line : {
           std::string(R"(atp_node_info{role="server",listen="10.0.0.1:5501",version="1.2"} 1)"),
           "atp_job_ranks" + job + R"(state="joined"} 2)",
           "atp_job_ranks" + job + R"(state="left"} 1)",
           "atp_job_stuck_seconds" + job + R"(rank="2"} 3.25)",
           "atp_job_first_packet_lateness_seconds" + job + R"(rank="2",quantile="0.5"} 0.0015)",
           "atp_job_first_packet_lateness_seconds" + job + R"(rank="2",quantile="0.99"} 2)",
           "atp_job_last_packet_lateness_seconds" + job + R"(rank="2",quantile="0.99"} 4e-06)",
       }) {
    EXPECT_THAT(text, HasSubstr(line + "\n"));
  }
}

TEST(NodeMetrics, SayWhatAJobGetsOfASwitchsAggregatorsAndWhatMoreWouldBring) {
  const std::string text = text_of(status("switch"));
  const std::string job = R"({job_id="7",incarnation="4",first_stream="0"} )";
  for (const std::string& line :
       {"atp_job_aggregators" + job + "5", "atp_job_aggregators_part" + job + "2048",
        "atp_job_aggregators_gain_ratio" + job + "0.2",
        std::string("atp_switch_aggregators_enough 8192"), "atp_job_gradients_total" + job + "90",
        "atp_job_gradients_collided_total" + job + "9"}) {
    EXPECT_THAT(text, HasSubstr(line + "\n"));
  }
}

TEST(NodeMetrics, SayWhetherTheNodeDrainsAndHowManyJobsAreLeft) {
  NodeStatus one = status("server");
  one.jobs.resize(2, one.jobs[0]);
  one.jobs[1].first_stream = 2;  // another stream range of the same job
  EXPECT_THAT(text_of(one), HasSubstr("atp_node_draining 0\n"));
  one.draining = true;
  EXPECT_THAT(text_of(one), HasSubstr("atp_node_draining 1\n"));
  EXPECT_THAT(text_of(one), HasSubstr("atp_node_jobs 1\n"));
}

TEST(NodeMetrics, TellTwoTenantsJobsOfOneNumberApart) {
  NodeStatus one = status("server");
  one.jobs.resize(2, one.jobs[0]);
  one.jobs[0].tenant = "vision";
  one.jobs[1].tenant = "speech";
  for (const char* tenant : {"vision", "speech"}) {
    EXPECT_THAT(
        text_of(one),
        HasSubstr(fmt::format("first_stream=\"0\",tenant=\"{}\",state=\"joined\"}} 2\n", tenant)));
  }
  EXPECT_THAT(text_of(one), HasSubstr("atp_node_jobs 2\n"));
}

TEST(NodeMetrics, AreLimitedAndKeepTheLatestRanks) {
  NodeStatus many = status("server");
  many.jobs.resize(kMostMetricJobs + 3, many.jobs[0]);
  for (std::size_t i = 0; i < many.jobs.size(); ++i) many.jobs[i].job = i;
  for (std::size_t rank = 0; rank < kMostMetricRanks + 2; ++rank) {
    many.jobs[0].lateness.push_back({.rank = rank, .first_p99_us = rank * 10});
  }
  const std::string text = text_of(many);
  EXPECT_THAT(text, HasSubstr("atp_metrics_left_out 5\n"));
  EXPECT_THAT(text, Not(HasSubstr("{job_id=\"32\"")));
  EXPECT_THAT(text, Not(HasSubstr("rank=\"1\"")));
  EXPECT_THAT(text, HasSubstr("rank=\"65\""));
}

TEST(ProcessMetrics, AreThoseOfThisProcess) {
  MetricsText metrics;
  add_process_metrics(metrics);
  std::map<std::string, double> values;
  std::istringstream lines(metrics.text());
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('#')) continue;
    const std::size_t space = line.find(' ');
    values[line.substr(0, space)] = std::stod(line.substr(space));
  }
  EXPECT_GT(values.at("process_cpu_seconds_total"), 0);
  EXPECT_GT(values.at("process_resident_memory_bytes"), 1e6);
  EXPECT_GE(values.at("process_open_fds"), 3);
  const double age =
      static_cast<double>(std::time(nullptr)) - values.at("process_start_time_seconds");
  EXPECT_GT(age, -2);
  EXPECT_LT(age, 3600);
}

// ATP_WRITE_DOCS=1 rewrites the page.
TEST(MetricsPage, MatchesTheCode) {
  const std::string path = docs() + "metrics.md";
  const std::string begin = "<!-- of switches and servers: written by atp_cli_metrics_test -->\n";
  const std::string end = "<!-- end -->";
  const std::string page = read(path);
  const std::size_t from = page.find(begin);
  ASSERT_NE(from, std::string::npos) << path;
  const std::size_t to = page.find(end, from);
  ASSERT_NE(to, std::string::npos) << path;
  const std::string wanted =
      page.substr(0, from) + begin + "\n" + node_metrics_table() + "\n" + page.substr(to);
  if (std::getenv("ATP_WRITE_DOCS") != nullptr) std::ofstream(path) << wanted;
  EXPECT_EQ(read(path), wanted) << "run the test with ATP_WRITE_DOCS=1 to rewrite the page";
}

TEST(Dashboard, UsesExistingMetricsAndItsPanelsDoNotOverlap) {
  const Json board = Json::parse(read(docs() + "grafana.json"));
  std::set<std::string> names;
  for (const MetricInfo& info : node_metrics()) names.emplace(info.name);
  std::set<int> ids;
  std::set<std::pair<int, int>> cells;
  std::size_t asked = 0;
  for (const Json& panel : board.at("panels")) {
    EXPECT_TRUE(ids.insert(panel.at("id").get<int>()).second) << panel.at("title");
    EXPECT_FALSE(panel.at("title").get<std::string>().empty());
    const Json& at = panel.at("gridPos");
    EXPECT_LE(at.at("x").get<int>() + at.at("w").get<int>(), 24) << panel.at("title");
    for (int x = at.at("x"); x < at.at("x").get<int>() + at.at("w").get<int>(); ++x) {
      for (int y = at.at("y"); y < at.at("y").get<int>() + at.at("h").get<int>(); ++y) {
        EXPECT_TRUE(cells.insert({x, y}).second) << panel.at("title");
      }
    }
    for (const Json& target : panel.value("targets", Json::array())) {
      const auto expr = target.at("expr").get<std::string>();
      static const std::regex kName(R"(\b(atp|process)_[a-z_]+)");
      for (std::sregex_iterator it(expr.begin(), expr.end(), kName), none; it != none; ++it) {
        EXPECT_TRUE(names.contains(it->str())) << it->str() << " in " << panel.at("title");
        ++asked;
      }
    }
  }
  EXPECT_GT(asked, 10U);
}

}  // namespace
}  // namespace atp
