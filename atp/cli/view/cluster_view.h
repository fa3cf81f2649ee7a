#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "atp/cli/view/node_record.h"
#include "atp/cli/view/view_site.h"

// The cluster at one time, put together from what its nodes have said.

namespace atp {

struct NodeView {
  std::string name;
  std::string role;  // "switch", "server"; "" if it has never said so
  std::string address;
  std::string host;      // "" where no file names it
  bool is_asked = true;  // others are only what the asked ones send to
  Presence presence = Presence::kUnknown;
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

// The worse, the later.
enum class RankState : std::uint8_t {
  kJoined,
  kLeft,
  kDetached,  // sends straight to the server
  kLate,      // the oldest sums wait for it
  kMissing,   // has not joined yet
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
  bool is_joining = false;
  bool is_known = true;  // false: no server that answers has it; what is said of it is old
  std::vector<RankView> ranks;
  double waited_s = 0;  // for those that are stuck
  double sums = 0;      // per second
  double goodput_bits = 0;
  std::optional<double> share_summed;

  // Those in a state.
  RankList in(RankState state) const;
};

struct ClusterView {
  double time_s = 0;
  std::vector<NodeView> nodes;
  std::vector<LinkView> links;
  std::vector<JobView> jobs;

  const JobView* find_job(std::uint64_t job, std::uint64_t incarnation) const;
};

// `records` are those of the site's nodes. Where a rank sent to is remembered from `before`.
ClusterView make_cluster_view(const ViewSite& site, const std::vector<NodeRecord>& records,
                              const ClusterView& before, double time_s);

}  // namespace atp
