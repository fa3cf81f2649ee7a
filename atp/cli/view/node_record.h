#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "atp/cli/status/node_status.h"
#include "atp/cli/view/questions.h"

// What is known about one node over time: whether it is up and since when, and how fast its
// counters rise.

namespace atp {

inline constexpr double kBitsPerValue = 32;  // of float32

// The share of a job's gradients that found no aggregator of a switch, how many it has there, and
// how much faster it would be with enough of them, at most.
struct CollidedJob {
  std::string name;  // "job 7"
  double share = 0;
  std::uint64_t held = 0;
  std::uint64_t part = 0;
  double gain = 0;
};

// Rates per second between two answers.
struct NodeRates {
  double in_bits = 0;  // with IP and UDP headers
  double out_bits = 0;
  double sums = 0;
  double goodput_bits = 0;  // sums of float32 values
  // On a switch, the share of gradients that it did not merely pass on; on a server, the share of
  // sums for which the switches had added all that they could.
  std::optional<double> share_summed;
  std::optional<double> share_collided;
  std::vector<CollidedJob> collided_jobs;  // those with a share
  std::uint64_t enough_aggregators = 0;    // so that none would have one
  double refused_packets = 0;              // dropped, and not sent by any healthy job
  double lost_packets = 0;                 // for lack of room, here
};

// The rates of one stream range of a job, from a server.
struct JobRates {
  double sums = 0;
  double sums_that_switches_could_add = 0;
  double sums_in_switches = 0;
};

class NodeRecord {
 public:
  // Answers come in the order of their times, in seconds since 1970.
  void take(NodeAnswer answer, double time_s);

  NodePresence presence() const { return presence_; }
  double since_s() const { return since_s_; }  // of the presence
  const std::string& problem() const { return problem_; }
  // The last answer; nothing if the node has never answered.
  const std::optional<NodeStatus>& status() const { return status_; }
  // Nothing unless the node is up and has answered twice. A restarted node counts from 0.
  const std::optional<NodeRates>& rates() const { return rates_; }
  const std::vector<JobRates>& job_rates() const { return job_rates_; }  // of status()->jobs
  std::uint64_t restarts() const { return restarts_; }
  // How long its process did not run between the last two answers, by its own count.
  double stopped_s() const { return stopped_s_; }

 private:
  void compare(const NodeStatus& before, const NodeStatus& now, double seconds);

  NodePresence presence_ = NodePresence::kUnknown;
  double since_s_ = 0;
  double answered_s_ = 0;
  std::string problem_;
  std::optional<NodeStatus> status_;
  std::optional<NodeRates> rates_;
  std::vector<JobRates> job_rates_;
  std::uint64_t restarts_ = 0;
  double stopped_s_ = 0;
};

}  // namespace atp
