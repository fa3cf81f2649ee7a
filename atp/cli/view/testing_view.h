#pragma once

#include <string>
#include <utility>
#include <vector>

#include "atp/cli/view/cluster_view.h"

// Answers and views for the tests, in few words.

namespace atp {

using RankList = std::vector<Rank>;
inline RankSet set_of(const RankList& ranks) {
  RankSet set;
  for (const Rank rank : ranks) set.insert(rank);
  return set;
}

// One rank list of a job for each state that matters here.
struct TestJob {
  std::uint64_t job = 7;
  RankList joined = {0, 1};
  RankList missing = {}, detached = {}, lost = {}, left = {};
  RankList stuck = {};
  std::string parent = {};
  std::uint64_t fragments = 0;
  std::uint64_t gradients = 0, collided = 0, held = 0, part = 0, limit = 0, children = 0;
};

inline JobStatus job_status(const TestJob& is) {
  JobStatus job{.job = is.job,
                .incarnation = 1,
                .world_size = is.joined.size() + is.missing.size() + is.lost.size(),
                .values_per_fragment = 350,
                .joined = set_of(is.joined),
                .detached = set_of(is.detached),
                .left = set_of(is.left),
                .state = is.missing.empty() ? "running" : "joining",
                .missing = set_of(is.missing),
                .lost = set_of(is.lost),
                .fragments = is.fragments,
                .has_switches = true,
                .parent = is.parent,
                .children = is.children,
                .aggregators = {.limit = is.limit,
                                .part = is.part,
                                .held = is.held,
                                .gradients = is.gradients,
                                .collided = is.collided}};
  if (is.stuck.empty()) return job;
  job.stuck.emplace(StuckJob{.waited_s = 1, .operation = "sum #17"});
  for (const Rank rank : is.stuck) job.stuck->ranks.push_back({rank, "10.0.1.2"});
  return job;
}

inline NodeAnswer answer(bool is_switch, const std::vector<TestJob>& jobs = {},
                         CounterSnapshot counters = {}) {
  NodeAnswer answer{.presence = NodePresence::kUp};
  answer.status.role = is_switch ? "switch" : "server";
  answer.status.counters = std::move(counters);
  for (const TestJob& job : jobs) answer.status.jobs.push_back(job_status(job));
  return answer;
}

inline NodeAnswer no_answer(NodePresence presence, std::string problem = "Connection refused") {
  return {.presence = presence, .problem = std::move(problem), .status = {}};
}

// A server, and a switch that sends to it.
inline ViewSite small_site() {
  ViewSite site{.name = "small"};
  site.nodes = {{.name = "server", .role = "server", .address = "10.0.0.9:5500"},
                {.name = "switch", .role = "switch", .address = "10.0.0.1:5501"}};
  site.links = {{1, 0}};
  return site;
}

}  // namespace atp
