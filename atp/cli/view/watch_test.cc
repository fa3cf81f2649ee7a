#include "atp/cli/view/watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "atp/cli/view/testing_view.h"

namespace atp {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// What the server and the switch answer in one second.
struct Second {
  NodeAnswer server = answer(false);
  NodeAnswer node = answer(true);
};

class WatchTest : public testing::Test {
 protected:
  // Calls are one second apart; the first is 1000 s after 1970.
  void pass(Second second) {
    records_[0].take(std::move(second.server), time_s_);
    records_[1].take(std::move(second.node), time_s_);
    watch_.take(make_cluster_view(site_, records_, watch_.view(), time_s_));
    time_s_ += 1;
  }

  // The events since the last call.
  std::vector<std::string> events() {
    std::vector<std::string> texts;
    for (const ClusterEvent& one : watch_.events()) {
      if (one.number > seen_) texts.push_back(one.finding.text);
    }
    seen_ = watch_.events().empty() ? 0 : watch_.events().back().number;
    return texts;
  }

  std::vector<std::string> problems() const {
    std::vector<std::string> texts;
    for (const Finding& problem : watch_.problems()) texts.push_back(problem.text);
    return texts;
  }

  ViewSite site_ = small_site();
  std::vector<NodeRecord> records_ = std::vector<NodeRecord>(2);
  Watch watch_;
  double time_s_ = 1000;
  std::uint64_t seen_ = 0;
};

// A stranger can claim as many; each is not looked for among all others.
TEST_F(WatchTest, ManyLateRanksOfManyJobsTakeLittleTime) {
  constexpr std::uint64_t kJobs = 60;
  constexpr Rank kRanks = 1000;
  NodeAnswer server = answer(false);
  for (std::uint64_t job = 0; job < kJobs; ++job) {
    JobStatus& of = server.status.jobs.emplace_back(job_status({.job = job}));
    for (Rank rank = 0; rank < kRanks; ++rank) {
      of.joined.insert(rank);
      of.lateness.push_back({.rank = rank, .operations = 1000, .first_p50_us = 20'000});
    }
  }
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 2; ++i) pass({server, answer(true)});
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  EXPECT_EQ(watch_.problems().size(), kJobs);
  EXPECT_LT(took.count(), 10);
}

Second with(const TestJob& job) {
  TestJob tree = job;
  tree.parent = "10.0.0.9:5500";
  return {answer(false, {job}), answer(true, {tree})};
}

// The server says why the job has failed, and does not know it any more.
Second failed() {
  Second second{answer(false), answer(true)};
  second.server.status.failures = {
      {.job = 7, .incarnation = 1, .why = "rank 1 (10.0.1.1) left: it was killed"}};
  return second;
}

struct Story {
  const char* name;
  std::vector<Second> seconds;
  std::vector<std::string> events;  // after all of them
  std::vector<std::string> problems;
};

TEST_F(WatchTest, ReportsWhatChangesBetweenViews) {
  const Second idle;
  const Second dead_switch{answer(false), no_answer(NodePresence::kDead)};
  const Second silent_server{no_answer(NodePresence::kSilent, "sent nothing for 2 s"),
                             answer(true)};
  const Second unasked{no_answer(NodePresence::kUnknown, ""),
                       no_answer(NodePresence::kUnknown, "")};
  const std::string dead = "switch (10.0.0.1:5501) is dead: Connection refused";
  const Story stories[] = {
      {"nothing happens in an idle cluster", {idle, idle, idle}, {}, {}},
      {"nodes that are still being asked are no problem", {unasked, unasked}, {}, {}},
      {"a node dies once", {idle, dead_switch, dead_switch}, {dead}, {dead}},
      {"a node that never answered is reported too", {dead_switch}, {dead}, {dead}},
      {"a node answers again",
       {idle, dead_switch, dead_switch, idle},
       {dead, "switch (10.0.0.1:5501) answers again, after 2 s"},
       {}},
      {"a stopped node does not answer",
       {idle, silent_server},
       {"server (10.0.0.9:5500) does not answer: sent nothing for 2 s"},
       {"server (10.0.0.9:5500) does not answer: sent nothing for 2 s"}},
      {"from silent to dead is one absence",
       {idle, {answer(false), no_answer(NodePresence::kSilent, "said nothing")}, dead_switch},
       {"switch (10.0.0.1:5501) does not answer: said nothing"},
       {dead}},
      {"a node that hides its status is no dead node",
       {{answer(false), no_answer(NodePresence::kRefuses, "closed the connection")}},
       {"switch (10.0.0.1:5501) refuses status queries: closed the connection"},
       {"switch (10.0.0.1:5501) refuses status queries: closed the connection"}},
      {"a node restarts between two views",
       {{answer(false), answer(true, {}, {{"packets_received", 10}})},
        {answer(false), answer(true, {}, {{"packets_received", 3}})}},
       {"switch (10.0.0.1:5501) has restarted"},
       {}},
      {"a process that did not run reports it itself",
       {{answer(false), answer(true, {}, {{"process_stopped_ms", 0}})},
        {answer(false), answer(true, {}, {{"process_stopped_ms", 3200}})}},
       {"switch (10.0.0.1:5501) did not run for 3.2 s: stopped, or short of processor time"},
       {}},
      {"a job fails between two views",
       {with({}), failed()},
       {"job 7 runs with 2 ranks", "job 7 has failed: rank 1 (10.0.1.1) left: it was killed",
        "job 7 has ended"},
       {}},
      {"a job that nobody has seen fails",
       {idle, failed(), failed()},
       {"job 7 has failed: rank 1 (10.0.1.1) left: it was killed"},
       {}},
      {"a failure before the first view is no news", {failed(), failed()}, {}, {}},
      {"a job joins, runs and finishes",
       {idle, with({.joined = {0}, .missing = {1}}), with({}), with({}), idle},
       {"job 7 is joining: 2 ranks in total", "job 7 runs with 2 ranks", "job 7 has finished"},
       {}},
      {"a job that is already running is reported at once",
       {with({})},
       {"job 7 runs with 2 ranks"},
       {}},
      {"two jobs are told apart",
       {with({.job = 7}), with({.job = 8})},
       {"job 7 runs with 2 ranks", "job 7 has finished", "job 8 runs with 2 ranks"},
       {}},
      {"ranks leave one after the other",
       {with({}), with({.left = {1}}), with({.left = {0, 1}})},
       {"job 7 runs with 2 ranks", "job 7: rank 1 left", "job 7: ranks 0 and 1 left"},
       {}},
      {"a rank is stuck and goes on",
       {with({}), with({.stuck = {1}}), with({.stuck = {1}}), with({})},
       {"job 7 runs with 2 ranks", "job 7 waits for rank 1 (10.0.1.2) in sum #17",
        "job 7 no longer waits for rank 1 (10.0.1.2) in sum #17, after 3 s"},
       {}},
      {"a second stuck rank is reported too",
       {with({}), with({.stuck = {1}}), with({.stuck = {0, 1}})},
       {"job 7 runs with 2 ranks", "job 7 waits for rank 1 (10.0.1.2) in sum #17",
        "job 7 waits for ranks 0 (10.0.1.2), 1 (10.0.1.2) in sum #17"},
       {"job 7 waits for ranks 0 (10.0.1.2), 1 (10.0.1.2) in sum #17"}},
      {"a rank is lost, and the job ends with it",
       {with({}), with({.joined = {0}, .lost = {1}}), idle},
       {"job 7 runs with 2 ranks", "job 7: rank 1 silent for a lease: lost",
        "job 7 ended: rank 1 lost"},
       {}},
      {"a job ends while it waits",
       {with({}), with({.stuck = {1}}), idle},
       {"job 7 runs with 2 ranks", "job 7 waits for rank 1 (10.0.1.2) in sum #17",
        "job 7 ended while it waited for rank 1"},
       {}},
      {"ranks leave their switch and return",
       {with({}), with({.detached = {0, 1}}), with({})},
       {"job 7 runs with 2 ranks",
        "job 7: ranks 0 and 1 left the switch and send straight to the server",
        "job 7: all ranks send through their switches again, after 1 s"},
       {}},
      {"a dead server's job is unknown, and ends once the server has forgotten it",
       {with({}), {no_answer(NodePresence::kDead), answer(true)}, idle},
       {"job 7 runs with 2 ranks", "server (10.0.0.9:5500) is dead: Connection refused",
        "job 7 lost its server: no server that answers knows it", "job 7 ended with its server",
        "server (10.0.0.9:5500) answers again, after 1 s"},
       {}},
      {"a server that restarts between two views forgets its jobs",
       {{answer(false, {{}}, {{"packets_received", 9}}), answer(true)},
        {answer(false, {}, {{"packets_received", 1}}), answer(true)}},
       {"job 7 runs with 2 ranks", "server (10.0.0.9:5500) has restarted",
        "job 7 ended with its server"},
       {}},
      {"drops that rise are one problem",
       {{answer(false), answer(true, {}, {{"drop_bad_body", 1}})},
        {answer(false), answer(true, {}, {{"drop_bad_body", 5}})},
        {answer(false), answer(true, {}, {{"drop_bad_body", 9}})}},
       {"switch (10.0.0.1:5501) drops packets that no healthy job sends: from strangers, or from "
        "ranks that were started wrongly"},
       {"switch (10.0.0.1:5501) drops packets that no healthy job sends: from strangers, or from "
        "ranks that were started wrongly"}},
      {"drops of repeats and of packets of ended jobs are no problem",
       {{answer(false), answer(true, {}, {{"drop_unknown_job", 1}, {"drop_duplicate", 1}})},
        {answer(false), answer(true, {}, {{"drop_unknown_job", 500}, {"drop_duplicate", 9}})}},
       {},
       {}},
      {"packets lost for lack of room are another problem",
       {{answer(false), answer(true, {}, {{"udp_receive_drops", 1}})},
        {answer(false), answer(true, {}, {{"udp_receive_drops", 5}})}},
       {"switch (10.0.0.1:5501) loses packets for lack of room: a core is too slow, or a socket "
        "buffer too small"},
       {"switch (10.0.0.1:5501) loses packets for lack of room: a core is too slow, or a socket "
        "buffer too small"}},
      {"a switch that runs out of aggregators",
       {{answer(false), answer(true, {}, {{"gradients_received", 0}, {"collisions", 0}})},
        {answer(false), answer(true, {}, {{"gradients_received", 100}, {"collisions", 20}})}},
       {"switch (10.0.0.1:5501) has too few aggregators: more than 10 % of the gradients collide"},
       {"switch (10.0.0.1:5501) has too few aggregators: more than 10 % of the gradients collide"}},
  };
  for (const Story& story : stories) {
    SCOPED_TRACE(story.name);
    records_ = std::vector<NodeRecord>(2);
    watch_ = Watch();
    seen_ = 0;
    time_s_ = 1000;
    for (const Second& second : story.seconds) pass(second);
    EXPECT_THAT(events(), testing::UnorderedElementsAreArray(story.events));
    EXPECT_THAT(problems(), testing::ElementsAreArray(story.problems));
  }
}

TEST_F(WatchTest, SaysWhichJobsFindTooFewAggregatorsAndWhatMoreWouldBring) {
  const auto second = [](std::uint64_t seven, std::uint64_t eight) {
    Second one{answer(false),
               answer(true,
                      {{.job = 7,
                        .gradients = 4 * seven,
                        .collided = seven,
                        .held = 30,
                        .part = 32,
                        .limit = 64,
                        .children = 4},
                       {.job = 8, .gradients = 50 * eight, .collided = eight, .part = 32}},
                      {{"gradients_received", 4 * seven}, {"collisions", seven + eight}})};
    one.node.status.aggregators.total = 64;
    return one;
  };
  pass(second(0, 0));
  pass(second(100, 1));
  EXPECT_THAT(problems(),
              ElementsAre("switch (10.0.0.1:5501) has too few aggregators: more than 10 % of the "
                          "gradients collide (job 7: 25 %, holds 30, part 32, with 128 at most "
                          "75 % faster; job 8: 2 %, holds 0, part 32)"));
}

TEST_F(WatchTest, SaysHowLongANodeHasBeenDead) {
  pass({});
  for (int i = 0; i < 5; ++i) pass({answer(false), no_answer(NodePresence::kDead)});
  ASSERT_EQ(watch_.problems().size(), 1u);
  EXPECT_EQ(watch_.problems()[0].since_s, 1001);
  EXPECT_EQ(watch_.problems()[0].node, "switch");
}

TEST_F(WatchTest, ShowsDropsForTenSeconds) {
  const auto dropped = [](std::uint64_t count) {
    return Second{answer(false), answer(true, {}, {{"drop_bad_body", count}})};
  };
  pass(dropped(0));
  pass(dropped(4));
  for (int i = 0; i < 10; ++i) pass(dropped(4));
  EXPECT_EQ(problems().size(), 1u);
  events();
  pass(dropped(4));
  EXPECT_THAT(problems(), IsEmpty());
  EXPECT_THAT(events(),
              ElementsAre("switch (10.0.0.1:5501) no longer drops such packets, after 11 s"));
}

TEST_F(WatchTest, ReportsRanksThatHaveNotJoinedAfterTenSeconds) {
  const Second joining = with({.joined = {0}, .missing = {1}});
  for (int i = 0; i < 11; ++i) pass(joining);
  EXPECT_THAT(problems(), IsEmpty());
  pass(joining);
  pass(joining);
  EXPECT_THAT(problems(), ElementsAre("job 7 waits for rank 1 to join"));
}

TEST_F(WatchTest, NamesAStragglerUntilItIsBelowHalfTheLimit) {
  const auto late = [](std::uint64_t us, std::uint64_t operations = 200) {
    Second second = with({});
    second.node.status.jobs[0].lateness = {
        {.rank = 1, .operations = operations, .first_p50_us = us}};
    return second;
  };
  const std::string text = "job 7: rank 1 is a straggler: late by ";
  struct Case {
    std::uint64_t us;
    std::vector<std::string> problems;
  };
  const Case cases[] = {{9'000, {}},
                        {40'000, {text + "40 ms in half of the operations"}},
                        {6'000, {text + "6 ms in half of the operations"}},
                        {4'000, {}},
                        {9'000, {}}};
  pass(late(400'000, 5));
  EXPECT_THAT(problems(), IsEmpty()) << "the first operations say little";
  for (const Case& c : cases) {
    pass(late(c.us));
    EXPECT_EQ(problems(), c.problems) << c.us;
  }
}

TEST_F(WatchTest, ListsTheWorstProblemFirst) {
  Second second = with({.detached = {0}});
  second.node = no_answer(NodePresence::kDead);
  pass(second);
  ASSERT_EQ(watch_.problems().size(), 2u);
  EXPECT_EQ(watch_.problems()[0].severity, Severity::kBad);
  EXPECT_EQ(watch_.problems()[1].severity, Severity::kWarning);
}

TEST_F(WatchTest, KeepsOnlyTheLatestEvents) {
  for (std::uint64_t i = 0; i < 150; ++i) pass(with({.job = i}));
  EXPECT_EQ(watch_.events().size(), Watch::kMostEvents);
  EXPECT_EQ(watch_.events().back().finding.text, "job 149 runs with 2 ranks");
  EXPECT_EQ(watch_.events().back().number, 299u);
}

}  // namespace
}  // namespace atp
