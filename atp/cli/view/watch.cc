#include "atp/cli/view/watch.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "atp/base/text.h"
#include "atp/cli/status/job_findings.h"

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

Finding about_job(const auto& job, Severity severity, const char* kind, const std::string& text) {
  return {.severity = severity, .kind = kind, .node = "", .job = name_of_job(job), .text = text};
}

Finding about_node(const NodeView& node, Severity severity, const char* kind,
                   std::string_view text) {
  return {.severity = severity,
          .kind = kind,
          .node = node.name,
          .text = fmt::format("{} {}", name_of(node), text)};
}

// Which of the missing ones are at fault depends on what was before.
JobFacts facts_of(const JobView& job) {
  JobFacts facts{.name = name_of_job(job),
                 .lost = job.in(RankState::kLost),
                 .left = job.in(RankState::kLeft),
                 .missing = {},
                 .detached = job.in(RankState::kDetached),
                 .stuck = {},
                 .waited_s = job.waited_s,
                 .waits_in = job.waits_in};
  for (const RankView& one : job.ranks) {
    if (one.state == RankState::kStuck) facts.stuck.push_back({one.rank, one.host});
  }
  return facts;
}

std::string count_text(std::uint64_t ranks) {
  return fmt::format("{} rank{}", ranks, ranks == 1 ? "" : "s");
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

// Whether the node or job of something that is not found any more is up, so that it is over and not
// merely unseen.
bool is_seen(const Finding& finding, const ClusterView& now) {
  if (finding.job) {
    const JobView* job = now.find_job(*finding.job);
    return job != nullptr && job->is_known;
  }
  return std::any_of(now.nodes.begin(), now.nodes.end(), [&](const NodeView& node) {
    return node.name == finding.node && node.presence == NodePresence::kUp;
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

Finding end_of(const JobView& job, bool is_forgotten, bool has_failed) {
  const auto end = [&](Severity severity, const std::string& how) {
    return about_job(job, severity, "ended", fmt::format("{} {}", name_of(job), how));
  };
  const RankSet lost = job.in(RankState::kLost), stuck = job.in(RankState::kStuck);
  if (has_failed) return end(Severity::kNote, "has ended");
  if (!lost.empty()) return end(Severity::kBad, fmt::format("ended: {} lost", ranks_text(lost)));
  if (!stuck.empty()) {
    return end(Severity::kBad, "ended while it waited for " + ranks_text(stuck));
  }
  if (is_forgotten) return end(Severity::kBad, "ended with its server");
  return end(Severity::kGood, "has finished");
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

std::vector<Finding> Watch::problems() const {
  std::vector<Finding> problems;
  for (const Severity severity : {Severity::kBad, Severity::kWarning}) {
    std::copy_if(episodes_.lasting().begin(), episodes_.lasting().end(),
                 std::back_inserter(problems),
                 [severity](const Finding& finding) { return finding.severity == severity; });
  }
  return problems;
}

void Watch::take(const ClusterView& now) {
  note_restarts(now);
  note_jobs(now);
  for (Finding& news : episodes_.take(findings_in(now), now.time_s)) {
    if (news.severity != Severity::kGood || is_seen(news, now)) note(std::move(news), now.time_s);
  }
  view_ = now;
}

void Watch::note(Finding finding, double time_s) {
  finding.since_s.reset();
  events_.push_back({++last_number_, time_s, std::move(finding)});
  if (events_.size() > kMostEvents) events_.pop_front();
}

void Watch::note_restarts(const ClusterView& now) {
  for (const NodeView& node : now.nodes) {
    if (has_restarted(node, view_)) {
      note(about_node(node, Severity::kWarning, "restarted", "has restarted"), now.time_s);
    }
    if (node.stopped_s < kWorthStoppingSeconds) continue;
    note(about_node(node, Severity::kWarning, "stopped",
                    fmt::format("did not run for {:.1f} s: stopped, or short of processor time",
                                node.stopped_s)),
         now.time_s);
  }
}

void Watch::note_jobs(const ClusterView& now) {
  const bool server_restarted = has_restarted_server(now, view_);
  const bool is_first = view_.nodes.empty();
  for (const FailedJob& failure : now.failures) {
    if (is_first || view_.find_failure(name_of_job(failure)) != nullptr) continue;
    note(finding_of(failure), now.time_s);
  }
  for (const JobView& job : view_.jobs) {
    if (now.find_job(name_of_job(job)) != nullptr) continue;
    note(end_of(job, !job.is_known || server_restarted,
                now.find_failure(name_of_job(job)) != nullptr),
         now.time_s);
  }
  for (const JobView& job : now.jobs) {
    const JobView* before = view_.find_job(name_of_job(job));
    const std::string ranks = count_text(job.world_size);
    if (before == nullptr && job.is_joining) {
      note(about_job(job, Severity::kNote, "joins",
                     fmt::format("{} is joining: {} in total", name_of(job), ranks)),
           now.time_s);
    } else if (!job.is_joining && (before == nullptr || before->is_joining)) {
      note(about_job(job, Severity::kGood, "runs",
                     fmt::format("{} runs with {}", name_of(job), ranks)),
           now.time_s);
    }
  }
}

std::vector<Finding> Watch::findings_in(const ClusterView& view) {
  std::vector<Finding> findings;
  for (const NodeView& node : view.nodes) add_node_findings(node, view.time_s, findings);
  for (const JobView& job : view.jobs) add_job_findings(job, view.time_s, findings);
  // Forget conditions that have ended, with their nodes and jobs.
  std::erase_if(held_until_, [&](const auto& one) { return one.second < view.time_s; });
  return findings;
}

void Watch::add_node_findings(const NodeView& node, double time_s, std::vector<Finding>& findings) {
  if (!node.is_asked || node.presence == NodePresence::kUnknown) return;
  if (node.presence == NodePresence::kUp) {
    add_traffic_findings(node, time_s, findings);
    return;
  }
  Finding absent =
      about_node(node, is_gone(node.presence) ? Severity::kBad : Severity::kWarning, "absent",
                 fmt::format("{}: {}", absence_of(node.presence), node.problem));
  absent.over = name_of(node) + " answers again";
  absent.since_s = node.since_s;
  findings.push_back(std::move(absent));
}

void Watch::add_traffic_findings(const NodeView& node, double time_s,
                                 std::vector<Finding>& findings) {
  const NodeRates rates = node.rates.value_or(NodeRates{});
  const auto add = [&](const char* kind, bool is_so, std::string_view text, const char* over) {
    if (!holds(fmt::format("{} {}", node.address, kind), is_so, time_s)) return;
    findings.push_back(about_node(node, Severity::kWarning, kind, text));
    findings.back().over = fmt::format("{} {}", name_of(node), over);
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

void Watch::add_job_findings(const JobView& job, double time_s, std::vector<Finding>& findings) {
  if (!job.is_known) {
    findings.push_back(
        about_job(job, Severity::kBad, "unknown",
                  name_of(job) + " lost its server: no server that answers knows it"));
    return;
  }
  JobFacts facts = facts_of(job);
  if (const RankSet missing = job.in(RankState::kMissing); !missing.empty()) {
    const std::string key = fmt::format("{} {} is joining", name_of(job), job.incarnation);
    if (view_.find_job(facts.name) == nullptr) held_until_[key] = time_s + kSlowToJoinSeconds;
    if (!held_until_.contains(key)) facts.missing = missing;
  }
  for (Finding& finding : findings_of(facts, time_s)) findings.push_back(std::move(finding));
  if (auto stragglers = stragglers_of(job)) findings.push_back(std::move(*stragglers));
}

std::optional<Finding> Watch::stragglers_of(const JobView& job) const {
  constexpr const char* kKind = "straggler";
  const Finding* before = episodes_.find(kKind, name_of_job(job));
  RankSet late;
  std::uint64_t most_us = 0;
  for (const RankView& rank : job.ranks) {
    if (!rank.delay || rank.delay->operations < kEnoughOperations) continue;
    const bool was = before != nullptr &&
                     std::binary_search(before->ranks.begin(), before->ranks.end(), rank.rank);
    if (rank.delay->typical_us() < (was ? kOnTimeUs : kLateUs)) continue;
    late.insert(static_cast<Rank>(rank.rank));
    most_us = std::max(most_us, rank.delay->typical_us());
  }
  if (late.empty()) return std::nullopt;
  const bool is_one = late.is_single();
  Finding finding = about_job(
      job, Severity::kWarning, kKind,
      fmt::format("{}: {} {}: late by {}{:.0f} ms in half of the operations", name_of(job),
                  ranks_text(late), is_one ? "is a straggler" : "are stragglers",
                  is_one ? "" : "up to ", static_cast<double>(most_us) / 1000));
  late.for_each([&](Rank rank) { finding.ranks.push_back(rank); });
  finding.over = name_of(job) + ": no rank is a straggler any more";
  return finding;
}

bool Watch::holds(const std::string& key, bool is_so, double time_s) {
  if (is_so) held_until_[key] = time_s + kHoldSeconds;
  const auto found = held_until_.find(key);
  return found != held_until_.end() && time_s <= found->second;
}

}  // namespace atp
