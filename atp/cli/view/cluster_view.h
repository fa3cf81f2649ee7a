#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "atp/cli/view/node_record.h"
#include "atp/cli/view/view_site.h"

// The cluster at one time, assembled from its nodes' answers.

namespace atp {

struct NodeView {
  std::string name;
  std::string role;  // "switch", "server"; "" if it has never answered
  std::string address;
  std::string host;      // "" if no file names it
  bool is_asked = true;  // otherwise only known as a node to which an asked one sends
  NodePresence presence = NodePresence::kUnknown;
  double since_s = 0;
  std::string problem;
  std::string version;
  std::uint64_t aggregators = 0;
  std::uint64_t aggregators_held = 0;
  std::uint64_t jobs = 0;
  std::optional<NodeRates> rates;
  std::uint64_t restarts = 0;
  double stopped_s = 0;
};

// From a node to the next on the way to the server, by index.
struct LinkView {
  std::size_t from = 0;
  std::size_t to = 0;
  bool is_used = false;  // by a job
};

// In order of severity.
enum class RankState : std::uint8_t {
  kJoined,
  kLeft,
  kDetached,   // sends straight to the server
  kStraggler,  // the oldest sums wait for it
  kMissing,    // has not joined yet
  kStuck,
  kLost,
};

struct RankView {
  std::uint32_t rank = 0;
  RankState state = RankState::kMissing;
  std::string host;                // "" if unknown
  std::optional<std::size_t> via;  // the node that it sends to, by index
  std::optional<RankDelay> delay;
};

struct JobView {
  std::uint64_t job = 0;
  std::uint64_t incarnation = 0;
  std::uint64_t world_size = 0;
  std::string tenant;  // "" if its servers have no keys
  bool is_joining = false;
  bool is_known = true;  // false: no server that answers knows it, so the rest is out of date
  std::vector<RankView> ranks;  // in ascending order
  double waited_s = 0;          // for the stuck ranks
  std::string waits_in;         // the operation, as the ranks call it; "" if unknown
  double sums = 0;              // per second
  double goodput_bits = 0;
  std::optional<double> share_summed;

  // The ranks in a state.
  RankSet in(RankState state) const;
};

struct ClusterView {
  double time_s = 0;
  std::vector<NodeView> nodes;
  std::vector<LinkView> links;
  std::vector<JobView> jobs;        // in the order of their names
  std::vector<FailedJob> failures;  // of all servers; each keeps its last ones

  const FailedJob* find_failure(const JobName& name) const;
  const JobView* find_job(const JobName& name) const;
};

// `records` are those of the site's nodes. Uses `before` for the node to which a rank sent last.
ClusterView make_cluster_view(const ViewSite& site, const std::vector<NodeRecord>& records,
                              const ClusterView& before, double time_s);

}  // namespace atp
