#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "atp/cli/view/cluster_view.h"

// Finds what is wrong and what has happened, from one view of the cluster to the next.

namespace atp {

enum class Severity : std::uint8_t { kGood, kNote, kWarning, kBad };

struct Problem {
  std::string key;  // identifies the problem while it lasts
  Severity severity = Severity::kWarning;
  std::string text;
  std::string over;     // the event's text when it is over
  std::string subject;  // its ranks; if they change, that is an event
  std::string node;     // its name; "" if it is about no node
  std::optional<JobName> job = std::nullopt;
  double since_s = 0;
};

struct Happening {
  std::uint64_t number = 0;  // from 1 on
  double time_s = 0;
  Severity severity = Severity::kNote;
  std::string text;
  std::string node;
};

class Watch {
 public:
  static constexpr std::size_t kMostHappenings = 200;

  // Takes the next view; in order of time.
  void take(const ClusterView& now);

  const std::vector<Problem>& problems() const { return problems_; }       // the worst first
  const std::deque<Happening>& happenings() const { return happenings_; }  // the oldest first
  const ClusterView& view() const { return view_; }

 private:
  // How long a condition that may come and go with every packet is held.
  static constexpr double kHoldSeconds = 10;

  void note(double time_s, Severity severity, std::string text, std::string node = "");
  void note_restarts(const ClusterView& now);
  void note_jobs(const ClusterView& now);
  void compare_problems(std::vector<Problem> problems, const ClusterView& now);

  std::vector<Problem> problems_of(const ClusterView& view);
  void add_node_problems(const NodeView& node, double time_s, std::vector<Problem>& problems);
  void add_traffic_problems(const NodeView& node, double time_s, std::vector<Problem>& problems);
  void add_job_problems(const JobView& job, double time_s, std::vector<Problem>& problems);
  // True while `is_so`, and for a while afterwards.
  bool holds(const std::string& key, bool is_so, double time_s);

  ClusterView view_;
  std::vector<Problem> problems_;
  std::set<std::string> keys_;  // of the problems
  std::deque<Happening> happenings_;
  std::uint64_t last_number_ = 0;
  std::map<std::string, double> held_until_;
};

}  // namespace atp
