#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "atp/cli/status/episodes.h"
#include "atp/cli/status/finding.h"
#include "atp/cli/view/cluster_view.h"

// Finds what is wrong and what has happened, from one view of the cluster to the next.

namespace atp {

struct ClusterEvent {
  std::uint64_t number = 0;  // from 1 on
  double time_s = 0;
  Finding finding;
};

class Watch {
 public:
  static constexpr std::size_t kMostEvents = 200;

  // Takes the next view; in order of time.
  void take(const ClusterView& now);

  std::vector<Finding> problems() const;                              // the worst first
  const std::deque<ClusterEvent>& events() const { return events_; }  // the oldest first
  const ClusterView& view() const { return view_; }

 private:
  // How long a condition that may come and go with every packet is held.
  static constexpr double kHoldSeconds = 10;

  void note(Finding finding, double time_s);
  void note_restarts(const ClusterView& now);
  void note_jobs(const ClusterView& now);

  std::vector<Finding> findings_in(const ClusterView& view);
  void add_node_findings(const NodeView& node, double time_s, std::vector<Finding>& findings);
  void add_traffic_findings(const NodeView& node, double time_s, std::vector<Finding>& findings);
  void add_job_findings(const JobView& job, double time_s, std::vector<Finding>& findings);
  std::optional<Finding> stragglers_of(const JobView& job) const;
  // True while `is_so`, and for a while afterwards.
  bool holds(const std::string& key, bool is_so, double time_s);

  ClusterView view_;
  Episodes episodes_;
  std::deque<ClusterEvent> events_;
  std::uint64_t last_number_ = 0;
  std::map<std::string, double> held_until_;
};

}  // namespace atp
