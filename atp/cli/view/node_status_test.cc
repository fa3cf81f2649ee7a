#include "atp/cli/view/node_status.h"

#include <gtest/gtest.h>

#include "atp/cli/node/status_dialogue.h"

namespace atp {
namespace {

std::string reply(const std::string& jobs, const std::string& more = "") {
  return std::string(kStatusLine) +
         R"({"role": "server", "listen": "10.0.0.9:5500", "version": "0.1.0", "counters": {"joins": 2}, "jobs": [)" +
         jobs + "]" + more + "}";
}

std::string job(const std::string& more = "") {
  return R"({"job": 7, "incarnation": 3, "world_size": 4, "joined": [3, 0, 1])" + more + "}";
}

TEST(NodeStatus, ReadsANodesAnswer) {
  const std::string stuck =
      R"(, "state": "running", "stuck": {"ranks": [{"rank": 2, "host": "10.0.1.2"}, {"rank": 3, "host": null}], "waited_s": 4.5, "operation": "sum #17"},
         "lateness": [{"rank": 1, "operations": 9, "first_p50_us": 40, "first_p99_us": 80, "last_p50_us": 50, "last_p99_us": 90}])";
  const NodeStatus status = read_node_status("a", reply(job(stuck))).value();
  EXPECT_FALSE(status.is_switch);
  EXPECT_EQ(status.counter("joins"), 2u);
  EXPECT_EQ(status.counter("none"), 0u);
  ASSERT_EQ(status.jobs.size(), 1u);
  EXPECT_EQ(status.jobs[0].joined, (RankList{0, 1, 3})) << "sorted, whatever was said";
  EXPECT_EQ(status.jobs[0].stuck->ranks[0].second, "10.0.1.2");
  EXPECT_EQ(status.jobs[0].stuck->ranks[1].second, "");
  EXPECT_EQ(status.jobs[0].stuck->operation, "sum #17");
  EXPECT_EQ(status.jobs[0].delays[0].typical_us(), 50u);
}

TEST(NodeStatus, HasTheHostOfEachRankThatTheServerKnows) {
  const auto hosts_of = [](const std::string& more) {
    return read_node_status("a", reply(job(more))).value().jobs[0].hosts;
  };
  EXPECT_TRUE(hosts_of("").empty()) << "nodes of earlier versions do not say";
  EXPECT_EQ(hosts_of(R"(, "hosts": ["10.0.1.1", null, "fd00::2"])"),
            (std::vector<std::string>{"10.0.1.1", "", "fd00::2"}));
}

TEST(NodeStatus, HasWhatAJobGetsOfASwitchsAggregators) {
  const std::string of_job =
      R"(, "children": 4, "aggregators": {"held": 30, "part": 32, "limit": 48, "gradients": 9, "collided": 2})";
  const JobStatus with = read_node_status("a", reply(job(of_job))).value().jobs[0];
  EXPECT_EQ(with.children, 4u);
  EXPECT_EQ(with.held, 30u);
  EXPECT_EQ(with.part, 32u);
  EXPECT_EQ(with.limit, 48u);
  EXPECT_EQ(with.gradients, 9u);
  EXPECT_EQ(with.collided, 2u);
}

TEST(NodeStatus, HasTheTenantOfAJobOnlyIfTheNodeKnowsIt) {
  const auto tenant_of = [](const std::string& more) {
    return read_node_status("a", reply(job(more))).value().jobs[0].tenant;
  };
  EXPECT_EQ(tenant_of(""), "") << "the node has no keys";
  EXPECT_EQ(tenant_of(R"(, "tenant": "vision")"), "vision");
  EXPECT_EQ(tenant_of(R"(, "tenant": null)"), "") << "its key is no longer in the file";
}

TEST(NodeStatus, RefusesWhatIsNotAStatus) {
  struct Case {
    const char* name;
    std::string reply;
  };
  const Case cases[] = {
      {"another protocol", "HTTP/1.1 400 Bad Request\r\n\r\n"},
      {"another version", "atp-status 7\n{}"},
      {"half of a document", std::string(kStatusLine) + "{"},
      {"no object", std::string(kStatusLine) + "[1]"},
      {"an empty object", std::string(kStatusLine) + "{}"},
      {"jobs that are not a list", reply("7")},
      {"a negative job", reply(R"({"job": -7, "incarnation": 3, "world_size": 4})")},
      {"a job that is a word", reply(R"({"job": "x", "incarnation": 3, "world_size": 4})")},
      {"ranks that are words", reply(job(R"(, "left": ["x"])"))},
      {"ranks that are not a list", reply(job(R"(, "left": 3)"))},
      {"a host that is a number",
       reply(job(
           R"(, "stuck": {"ranks": [{"rank": 2, "host": 3}], "waited_s": 1, "operation": null})"))},
      {"hosts that are an address", reply(job(R"(, "hosts": "10.0.1.1")"))},
      {"a rank's host that is a number", reply(job(R"(, "hosts": [3])"))},
      {"a parent that is a list", reply(job(R"(, "parent": [])"))},
      {"a tenant that is a number", reply(job(R"(, "tenant": 3)"))},
  };
  for (const Case& c : cases) EXPECT_FALSE(read_node_status("a", c.reply)) << c.name;
}

TEST(NodeStatus, LimitsAndCleansTextsFromAStranger) {
  std::string many;
  for (int i = 0; i < 2000; ++i) many += (i == 0 ? "" : ",") + job();
  EXPECT_EQ(read_node_status("a", reply(many)).value().jobs.size(), 256u);

  const NodeStatus far =
      read_node_status("a", reply(job(R"(, "left": [1023, 1024, 4000000000])"))).value();
  EXPECT_EQ(far.jobs[0].left, RankList{1023}) << "no rank has a higher number";

  const std::string name = R"("\u001b[31m<script>)" + std::string(500, 'x') + "\"";
  const NodeStatus named = read_node_status("a", reply(job(R"(, "parent": )" + name))).value();
  EXPECT_EQ(named.jobs[0].parent.size(), 64u);
  EXPECT_EQ(named.jobs[0].parent[0], ' ') << "no escape sequence";
}

}  // namespace
}  // namespace atp
