#include "atp/cli/view/cluster_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "atp/cli/view/testing_view.h"

namespace atp {
namespace {

// A server, a spine switch below it, and two rack switches below that.
ViewSite site_of_racks() {
  ViewSite site;
  for (const char* name : {"server", "spine", "a", "b"}) {
    site.nodes.push_back({.name = name,
                          .role = site.nodes.empty() ? "server" : "switch",
                          .address = std::string(name) + ":1"});
  }
  site.links = {{1, 0}, {2, 1}, {3, 1}};
  return site;
}

class ClusterViewTest : public testing::Test {
 protected:
  void take(std::size_t node, NodeAnswer answer) { records_[node].take(std::move(answer), 1000); }
  void look() { view_ = make_cluster_view(site_, records_, view_, 1000); }

  void take_running_job() {
    take(0, answer(false, {{.joined = {0, 1, 2, 3}}}));
    take(1, answer(true, {{.joined = {0, 1, 2, 3}, .parent = "server:1"}}));
    take(2, answer(true, {{.joined = {0, 1}, .parent = "spine:1"}}));
    take(3, answer(true, {{.joined = {2, 3}, .parent = "spine:1"}}));
  }

  // The node that each rank of the only job sends to.
  std::vector<std::string> ways() const {
    std::vector<std::string> names;
    for (const RankView& rank : view_.jobs.at(0).ranks) {
      names.push_back(rank.via ? view_.nodes[*rank.via].name : "-");
    }
    return names;
  }

  ViewSite site_ = site_of_racks();
  std::vector<NodeRecord> records_ = std::vector<NodeRecord>(4);
  ClusterView view_;
};

TEST_F(ClusterViewTest, ARankSendsToTheLowestSwitchThatHasIt) {
  take_running_job();
  look();
  EXPECT_THAT(ways(), testing::ElementsAre("a", "a", "b", "b"));
  for (const LinkView& link : view_.links) EXPECT_TRUE(link.is_used);
}

TEST_F(ClusterViewTest, ADetachedRankSendsStraightToTheServer) {
  take_running_job();
  take(0, answer(false, {{.joined = {0, 1, 2, 3}, .detached = {2, 3}}}));
  take(3, no_answer(NodePresence::kDead));
  look();
  EXPECT_THAT(ways(), testing::ElementsAre("a", "a", "server", "server"));
  EXPECT_EQ(view_.jobs[0].in(RankState::kDetached), set_of({2, 3}));
}

TEST_F(ClusterViewTest, APathThroughADeadSwitchIsKeptUntilTheServerReportsAnother) {
  take_running_job();
  look();
  take(3, no_answer(NodePresence::kDead));
  look();
  EXPECT_THAT(ways(), testing::ElementsAre("a", "a", "b", "b"));
}

TEST_F(ClusterViewTest, JobsAreListedByServersAndBySwitchesOnlyIfNoServerIsAsked) {
  take(2, answer(true, {{.joined = {0, 1}, .parent = "spine:1"}}));
  look();
  EXPECT_TRUE(view_.jobs.empty()) << "a switch keeps a tree for a while after its job";
  site_.nodes.erase(site_.nodes.begin());
  site_.nodes[0].role = "switch";
  site_.links.clear();
  records_ = std::vector<NodeRecord>(3);
  take(1, answer(true, {{.joined = {0, 1}, .parent = "spine:1"}}));
  look();
  ASSERT_EQ(view_.jobs.size(), 1u) << "without a server to ask, the switch is asked";
}

TEST_F(ClusterViewTest, JobsOfTwoTenantsWithTheSameNumberAreTwo) {
  take_running_job();
  look();
  EXPECT_EQ(view_.jobs[0].tenant, "");
  NodeAnswer server = answer(false, {{.joined = {0, 1}}, {.joined = {0, 1, 2}}});
  server.status.jobs[0].tenant = "speech";
  server.status.jobs[1].tenant = "vision";
  server.status.failures = {
      {.job = 7, .incarnation = 1, .why = "its rank was lost", .tenant = "vision"}};
  take(0, server);
  look();
  ASSERT_EQ(view_.jobs.size(), 2u);
  EXPECT_EQ(view_.jobs[0].tenant, "speech");
  EXPECT_EQ(view_.jobs[0].ranks.size(), 2u);
  EXPECT_EQ(view_.jobs[1].tenant, "vision");
  EXPECT_EQ(view_.jobs[1].ranks.size(), 3u);
  EXPECT_EQ(view_.find_failure(name_of_job(view_.jobs[0])), nullptr);
  EXPECT_NE(view_.find_failure(name_of_job(view_.jobs[1])), nullptr);
}

TEST_F(ClusterViewTest, TheWorstOfARanksStatesIsShown) {
  NodeAnswer server =
      answer(false, {{.joined = {0, 1, 2}, .missing = {3}, .detached = {1}, .stuck = {1}}});
  server.status.jobs[0].waited_for = RankSet::of(2);
  take(0, server);
  look();
  std::vector<RankState> states;
  for (const RankView& rank : view_.jobs[0].ranks) states.push_back(rank.state);
  EXPECT_THAT(states, testing::ElementsAre(RankState::kJoined, RankState::kStuck,
                                           RankState::kStraggler, RankState::kMissing));
  EXPECT_EQ(view_.jobs[0].ranks[1].host, "10.0.1.2");
  EXPECT_EQ(view_.jobs[0].waits_in, "sum #17");
}

TEST_F(ClusterViewTest, EachRankHasTheHostThatItsServerKnowsOrHasKnown) {
  const auto hosts = [this] {
    std::vector<std::string> all;
    for (const RankView& rank : view_.jobs[0].ranks) all.push_back(rank.host);
    return all;
  };
  NodeAnswer server = answer(false, {{.joined = {0, 1, 2}}});
  server.status.jobs[0].hosts = {"10.0.1.1", "", "10.0.1.3"};
  take(0, server);
  look();
  EXPECT_THAT(hosts(), testing::ElementsAre("10.0.1.1", "", "10.0.1.3"));
  server.status.jobs[0].hosts = {"10.0.1.1", "10.0.1.2", ""};
  take(0, server);
  look();
  EXPECT_THAT(hosts(), testing::ElementsAre("10.0.1.1", "10.0.1.2", "10.0.1.3"));
}

TEST_F(ClusterViewTest, TheHighestReportOfARanksLatenessIsShown) {
  take_running_job();
  NodeAnswer rack = answer(true, {{.joined = {0, 1}, .parent = "spine:1"}});
  rack.status.jobs[0].lateness = {{.rank = 1, .operations = 5, .first_p50_us = 900}};
  NodeAnswer spine = answer(true, {{.joined = {0, 1, 2, 3}, .parent = "server:1"}});
  spine.status.jobs[0].lateness = {{.rank = 1, .operations = 5, .first_p50_us = 30}};
  take(1, spine);
  take(2, rack);
  look();
  EXPECT_EQ(view_.jobs[0].ranks[1].delay->first_p50_us, 900u);
}

TEST_F(ClusterViewTest, AParentThatIsNotAskedIsShownToo) {
  take(2, answer(true, {{.joined = {0, 1}, .parent = "10.9.9.9:5501"}}));
  look();
  ASSERT_EQ(view_.nodes.size(), 5u);
  EXPECT_EQ(view_.nodes[4].name, "10.9.9.9:5501");
  EXPECT_FALSE(view_.nodes[4].is_asked);
}

TEST_F(ClusterViewTest, ALyingNodeAddsALimitedNumberOfNodes) {
  NodeAnswer liar = answer(true);
  for (std::uint64_t i = 0; i < 256; ++i) {
    liar.status.jobs.push_back(job_status({.job = i, .parent = std::to_string(i) + ":1"}));
  }
  take(2, liar);
  look();
  EXPECT_EQ(view_.nodes.size(), 4u + 64u);
}

TEST_F(ClusterViewTest, JobsOfADeadServerAreMarkedAsNoLongerKnown) {
  take_running_job();
  take(0, no_answer(NodePresence::kDead));
  look();
  ASSERT_EQ(view_.jobs.size(), 1u);
  EXPECT_FALSE(view_.jobs[0].is_known);
}

}  // namespace
}  // namespace atp
