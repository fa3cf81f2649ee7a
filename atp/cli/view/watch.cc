#include "atp/cli/view/watch.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "atp/base/text.h"

namespace atp {
namespace {

constexpr double kScarce = 0.1;                   // of the gradients of a switch collide
constexpr std::uint64_t kLateUs = 10'000;         // in half of the operations
constexpr std::uint64_t kEnoughOperations = 100;  // the first ones say little
constexpr std::uint64_t kOnTimeUs = 5'000;        // lower, so that a rank does not flap
constexpr double kSlowToJoinSeconds = 10;
constexpr double kWorthStoppingSeconds = 0.5;

std::string name_of(const NodeView& node) {
  return node.name == node.address ? node.name : fmt::format("{} ({})", node.name, node.address);
}

// "rank 2 (10.0.1.2)", or the ranks alone where they are several.
std::string stuck_text(const JobView& job, const RankSet& ranks) {
  if (!ranks.is_single()) return ranks_text(ranks);
  const auto one = std::find_if(job.ranks.begin(), job.ranks.end(),
                                [&](const RankView& view) { return view.rank == ranks.lowest(); });
  return ranks_text(ranks) + (one->host.empty() ? "" : " (" + one->host + ")");
}

// What is wrong with an absent node, as the end of a sentence.
std::string_view absence_of(NodePresence presence) {
  switch (presence) {
    case NodePresence::kDead: return "is dead";
    case NodePresence::kSilent: return "does not answer";
    case NodePresence::kRefuses: return "refuses status queries";
    case NodePresence::kStrange: return "is not an atp node of this version";
    case NodePresence::kUnknown:
    case NodePresence::kUp: break;
  }
  return "is there";
}

bool is_gone(NodePresence presence) {
  return presence == NodePresence::kDead || presence == NodePresence::kSilent;
}

// Whether the node or job of a problem is up, so the problem is over and not merely unseen.
bool can_be_over(const Problem& problem, const ClusterView& now) {
  if (problem.over.empty()) return false;
  if (problem.job) {
    const JobView* job = now.find_job(*problem.job);
    return job != nullptr && job->is_known;
  }
  return std::any_of(now.nodes.begin(), now.nodes.end(), [&](const NodeView& node) {
    return node.name == problem.node && node.presence == NodePresence::kUp;
  });
}

bool has_restarted(const NodeView& node, const ClusterView& before) {
  return std::any_of(before.nodes.begin(), before.nodes.end(), [&](const NodeView& old) {
    return old.address == node.address && old.restarts < node.restarts;
  });
}

bool has_restarted_server(const ClusterView& now, const ClusterView& before) {
  return std::any_of(now.nodes.begin(), now.nodes.end(), [&](const NodeView& node) {
    return node.role == "server" && has_restarted(node, before);
  });
}

// The worst first; equal ones keep their order.
std::vector<Problem> worst_first(std::vector<Problem> problems) {
  std::vector<Problem> sorted;
  sorted.reserve(problems.size());
  for (const Severity severity :
       {Severity::kBad, Severity::kWarning, Severity::kNote, Severity::kGood}) {
    for (Problem& problem : problems) {
      if (problem.severity == severity) sorted.push_back(std::move(problem));
    }
  }
  return sorted;
}

std::string end_of(const JobView& job, bool is_forgotten, bool has_failed) {
  if (has_failed) return fmt::format("{} has ended", name_of(job));
  const RankSet lost = job.in(RankState::kLost), stuck = job.in(RankState::kStuck);
  if (!lost.empty()) return fmt::format("{} ended: {} lost", name_of(job), ranks_text(lost));
  if (!stuck.empty()) {
    return fmt::format("{} ended while it waited for {}", name_of(job), stuck_text(job, stuck));
  }
  if (is_forgotten) return fmt::format("{} ended with its server", name_of(job));
  return fmt::format("{} has finished", name_of(job));
}

Severity severity_of_end(const JobView& job, bool is_forgotten) {
  const bool is_bad =
      is_forgotten || !job.in(RankState::kLost).empty() || !job.in(RankState::kStuck).empty();
  return is_bad ? Severity::kBad : Severity::kGood;
}

// " (job 7: 24 %, holds 30, part 32, with 128 at most 72 % faster; job 8 of vision: 3 %, …)"
std::string collided_text(const NodeRates& rates) {
  std::string text;
  for (const CollidedJob& one : rates.collided_jobs) {
    text += fmt::format("{}{}: {:.0f} %, holds {}, part {}", text.empty() ? " (" : "; ", one.name,
                        100 * one.share, one.held, one.part);
    if (one.gain <= 0) continue;
    text += fmt::format(", with {} at most {:.0f} % faster", with_commas(rates.enough_aggregators),
                        100 * one.gain);
  }
  return text.empty() ? text : text + ")";
}

}  // namespace

void Watch::take(const ClusterView& now) {
  note_restarts(now);
  note_jobs(now);
  compare_problems(problems_of(now), now);
  view_ = now;
}

void Watch::note(double time_s, Severity severity, std::string text, std::string node) {
  happenings_.push_back({.number = ++last_number_,
                         .time_s = time_s,
                         .severity = severity,
                         .text = std::move(text),
                         .node = std::move(node)});
  if (happenings_.size() > kMostHappenings) happenings_.pop_front();
}

void Watch::note_restarts(const ClusterView& now) {
  for (const NodeView& node : now.nodes) {
    if (has_restarted(node, view_)) {
      note(now.time_s, Severity::kWarning, name_of(node) + " has restarted", node.name);
    }
    if (node.stopped_s >= kWorthStoppingSeconds) {
      note(now.time_s, Severity::kWarning,
           fmt::format("{} did not run for {:.1f} s: stopped, or short of processor time",
                       name_of(node), node.stopped_s),
           node.name);
    }
  }
}

void Watch::note_jobs(const ClusterView& now) {
  const bool server_restarted = has_restarted_server(now, view_);
  const bool is_first = view_.nodes.empty();
  for (const FailedJob& failure : now.failures) {
    if (is_first || view_.find_failure(name_of_job(failure)) != nullptr) continue;
    note(now.time_s, Severity::kBad,
         fmt::format("{} has failed: {}", name_of(failure), failure.why));
  }
  for (const JobView& job : view_.jobs) {
    if (now.find_job(name_of_job(job)) != nullptr) continue;
    const bool is_forgotten = !job.is_known || server_restarted;
    const bool has_failed = now.find_failure(name_of_job(job)) != nullptr;
    note(now.time_s, has_failed ? Severity::kNote : severity_of_end(job, is_forgotten),
         end_of(job, is_forgotten, has_failed));
  }
  for (const JobView& job : now.jobs) {
    const JobView* before = view_.find_job(name_of_job(job));
    if (before == nullptr && job.is_joining) {
      note(now.time_s, Severity::kNote,
           fmt::format("{} is joining: {} rank{} in total", name_of(job), job.world_size,
                       job.world_size == 1 ? "" : "s"));
    } else if (!job.is_joining && (before == nullptr || before->is_joining)) {
      note(now.time_s, Severity::kGood,
           fmt::format("{} runs with {} rank{}", name_of(job), job.world_size,
                       job.world_size == 1 ? "" : "s"));
    }
    const RankSet left = job.in(RankState::kLeft);
    if (before == nullptr) continue;
    if (const RankSet fresh = left - before->in(RankState::kLeft); !fresh.empty()) {
      note(now.time_s, Severity::kNote, fmt::format("{} left {}", ranks_text(fresh), name_of(job)));
    }
  }
}

void Watch::compare_problems(std::vector<Problem> problems, const ClusterView& now) {
  std::map<std::string_view, const Problem*> before;
  for (const Problem& old : problems_) before.emplace(old.key, &old);
  keys_.clear();
  for (const Problem& problem : problems) keys_.insert(problem.key);
  for (const Problem& old : problems_) {
    if (keys_.contains(old.key) || !can_be_over(old, now)) continue;
    note(now.time_s, Severity::kGood,
         fmt::format("{}, after {:.0f} s", old.over, now.time_s - old.since_s), old.node);
  }
  for (Problem& problem : problems) {
    const auto found = before.find(problem.key);
    const Problem* old = found == before.end() ? nullptr : found->second;
    if (old != nullptr) problem.since_s = old->since_s;
    if (old == nullptr || old->subject != problem.subject) {
      note(now.time_s, problem.severity, problem.text, problem.node);
    }
  }
  problems_ = worst_first(std::move(problems));
}

std::vector<Problem> Watch::problems_of(const ClusterView& view) {
  std::vector<Problem> problems;
  for (const NodeView& node : view.nodes) add_node_problems(node, view.time_s, problems);
  for (const JobView& job : view.jobs) add_job_problems(job, view.time_s, problems);
  // Forget conditions that have ended, with their nodes and jobs.
  std::erase_if(held_until_, [&](const auto& one) { return one.second < view.time_s; });
  return problems;
}

void Watch::add_node_problems(const NodeView& node, double time_s, std::vector<Problem>& problems) {
  if (!node.is_asked || node.presence == NodePresence::kUnknown) return;
  if (node.presence == NodePresence::kUp) {
    add_traffic_problems(node, time_s, problems);
    return;
  }
  const std::string_view absence = absence_of(node.presence);
  problems.push_back({.key = fmt::format("node {} is not there", node.address),
                      .severity = is_gone(node.presence) ? Severity::kBad : Severity::kWarning,
                      .text = fmt::format("{} {}: {}", name_of(node), absence, node.problem),
                      .over = name_of(node) + " answers again",
                      .subject = "",
                      .node = node.name,
                      .since_s = node.since_s});
}

void Watch::add_traffic_problems(const NodeView& node, double time_s,
                                 std::vector<Problem>& problems) {
  const NodeRates rates = node.rates.value_or(NodeRates{});
  const auto add = [&](const char* what, bool is_so, std::string_view text, const char* over) {
    const std::string key = fmt::format("node {} {}", node.address, what);
    if (!holds(key, is_so, time_s)) return;
    problems.push_back({.key = key,
                        .severity = Severity::kWarning,
                        .text = fmt::format("{} {}", name_of(node), text),
                        .over = fmt::format("{} {}", name_of(node), over),
                        .subject = "",
                        .node = node.name,
                        .since_s = time_s});
  };
  add("refuses", rates.refused_packets > 0,
      "drops packets that no healthy job sends: from strangers, or from ranks that were started "
      "wrongly",
      "no longer drops such packets");
  add("loses", rates.lost_packets > 0,
      "loses packets for lack of room: a core is too slow, or a socket buffer too small",
      "no longer loses packets");
  add("collides", rates.share_collided.value_or(0) > kScarce,
      "has too few aggregators: more than 10 % of the gradients collide" + collided_text(rates),
      "has enough aggregators again");
}

void Watch::add_job_problems(const JobView& job, double time_s, std::vector<Problem>& problems) {
  const auto add = [&](const std::string& what, Severity severity, std::string text,
                       const std::string& over, double since_s, std::string subject = "") {
    problems.push_back({.key = fmt::format("{} {} {}", name_of(job), job.incarnation, what),
                        .severity = severity,
                        .text = name_of(job) + std::move(text),
                        .over = over.empty() ? "" : name_of(job) + over,
                        .subject = std::move(subject),
                        .node = "",
                        .job = name_of_job(job),
                        .since_s = since_s});
  };
  if (!job.is_known) {
    add("unknown", Severity::kBad, " lost its server: no server that answers knows it", "", time_s);
    return;
  }
  if (const RankSet stuck = job.in(RankState::kStuck); !stuck.empty()) {
    add("stuck", Severity::kBad,
        " waits for " + stuck_text(job, stuck) +
            (job.waits_in.empty() ? "" : " in " + job.waits_in),
        " continues", time_s - job.waited_s, ranks_text(stuck));
  }
  if (const RankSet lost = job.in(RankState::kLost); !lost.empty()) {
    add("lost", Severity::kBad, fmt::format(" lost {}", ranks_text(lost)), "", time_s,
        ranks_text(lost));
  }
  if (const RankSet missing = job.in(RankState::kMissing); !missing.empty()) {
    const JobView* before = view_.find_job(name_of_job(job));
    const std::string key = fmt::format("{} {} is joining", name_of(job), job.incarnation);
    if (before == nullptr) held_until_[key] = time_s + kSlowToJoinSeconds;
    if (!held_until_.contains(key)) {
      add("missing", Severity::kWarning, fmt::format(" waits for {} to join", ranks_text(missing)),
          "", time_s);
    }
  }
  if (const RankSet detached = job.in(RankState::kDetached); !detached.empty()) {
    add("detached", Severity::kWarning,
        fmt::format(": {} left the switch and send{} straight to the server", ranks_text(detached),
                    detached.size() == 1 ? "s" : ""),
        ": all ranks send through their switches again", time_s, ranks_text(detached));
  }
  for (const RankView& rank : job.ranks) {
    if (!rank.delay || rank.delay->operations < kEnoughOperations) continue;
    if (rank.delay->typical_us() < kOnTimeUs) continue;
    const std::string what = fmt::format("straggler {}", rank.rank);
    const bool was = keys_.contains(fmt::format("{} {} {}", name_of(job), job.incarnation, what));
    if (!was && rank.delay->typical_us() < kLateUs) continue;
    add(what, Severity::kWarning,
        fmt::format(": rank {} is a straggler: late by {:.0f} ms in half of the operations",
                    rank.rank, static_cast<double>(rank.delay->typical_us()) / 1000),
        fmt::format(": rank {} is no longer a straggler", rank.rank), time_s);
  }
}

bool Watch::holds(const std::string& key, bool is_so, double time_s) {
  if (is_so) held_until_[key] = time_s + kHoldSeconds;
  const auto found = held_until_.find(key);
  return found != held_until_.end() && time_s <= found->second;
}

}  // namespace atp
