#include "atp/cli/view/cluster_view.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace atp {
namespace {

constexpr std::size_t kMostUnasked = 64;

// One range of streams of a job, in the answer of a node.
struct Part {
  std::size_t node = 0;
  std::size_t index = 0;  // in the node's list
  const JobStatus* job = nullptr;
};
using Parts = std::vector<Part>;

class Builder {
 public:
  Builder(const ViewSite& site, const std::vector<NodeRecord>& records, const ClusterView& before)
      : site_(site), records_(records), before_(before) {}

  ClusterView build(double time_s) {
    view_.time_s = time_s;
    add_nodes();
    add_links();
    add_jobs();
    add_failures();
    return std::move(view_);
  }

 private:
  void add_nodes() {
    for (std::size_t i = 0; i < records_.size(); ++i) {
      const ViewNode& is = site_.nodes[i];
      const NodeRecord& record = records_[i];
      NodeView node{.name = is.name,
                    .role = is.role,
                    .address = is.address,
                    .host = is.host,
                    .presence = record.presence(),
                    .since_s = record.since_s(),
                    .problem = record.problem(),
                    .rates = record.rates(),
                    .restarts = record.restarts(),
                    .stopped_s = record.stopped_s()};
      if (const auto& status = record.status()) {
        node.role = status->is_switch() ? "switch" : "server";
        node.version = status->version;
        node.aggregators = status->aggregators.total;
        node.aggregators_held = status->aggregators.held;
        node.jobs = status->jobs.size();
      }
      indexes_.emplace(is.address, i);
      view_.nodes.push_back(std::move(node));
    }
  }

  bool is_up(std::size_t i) const { return records_[i].presence() == NodePresence::kUp; }

  // A node that another names as its parent is shown even if it is not asked.
  std::optional<std::size_t> index_of(const std::string& address) {
    const auto found = indexes_.find(address);
    if (found != indexes_.end()) return found->second;
    if (view_.nodes.size() >= records_.size() + kMostUnasked) return std::nullopt;
    const std::size_t i = view_.nodes.size();
    indexes_.emplace(address, i);
    view_.nodes.push_back(
        {.name = address, .role = "", .address = address, .host = "", .is_asked = false});
    return i;
  }

  void add_link(std::size_t from, std::size_t to, bool is_used) {
    for (LinkView& link : view_.links) {
      if (link.from != from || link.to != to) continue;
      link.is_used |= is_used;
      return;
    }
    if (from != to) view_.links.push_back({from, to, is_used});
  }

  void add_links() {
    for (const auto& [from, to] : site_.links) add_link(from, to, false);
    for (std::size_t i = 0; i < records_.size(); ++i) {
      const auto& status = records_[i].status();
      if (!status || !status->is_switch()) continue;
      for (const JobStatus& job : status->jobs) {
        const auto parent = index_of(job.parent);
        if (parent) add_link(i, *parent, is_up(i));
      }
    }
  }

  // Servers know a job best; a switch's answer is used if no server is asked.
  bool tells_jobs(std::size_t i) const {
    const auto& status = records_[i].status();
    return status && (!status->is_switch() || !has_servers());
  }

  bool has_servers() const {
    return std::any_of(view_.nodes.begin(), view_.nodes.end(),
                       [](const NodeView& node) { return node.is_asked && node.role == "server"; });
  }

  // A job with several servers has failed for the reason that one of them gives.
  void add_failures() {
    std::set<JobName> added;
    for (const NodeRecord& record : records_) {
      if (!record.status()) continue;
      for (const FailedJob& failure : record.status()->failures) {
        if (added.insert(name_of_job(failure)).second) view_.failures.push_back(failure);
      }
    }
  }

  void add_jobs() {
    std::map<JobName, Parts> told;
    for (std::size_t i = 0; i < records_.size(); ++i) {
      const bool is_told = tells_jobs(i);
      if (!is_told && !is_up(i)) continue;
      const auto& jobs = records_[i].status()->jobs;
      for (std::size_t k = 0; k < jobs.size(); ++k) {
        const JobName name = name_of_job(jobs[k]);
        if (is_up(i)) now_[name].push_back({i, k, &jobs[k]});
        if (is_told) told[name].push_back({i, k, &jobs[k]});
      }
    }
    for (auto& [name, parts] : told) {
      const auto is_old = [&](const Part& part) { return !is_up(part.node); };
      const bool is_known = !std::all_of(parts.begin(), parts.end(), is_old);
      if (is_known) std::erase_if(parts, is_old);
      add_job(name, parts, is_known);
    }
  }

  void add_job(const JobName& name, const Parts& parts, bool is_known) {
    JobView job{.job = name.job,
                .incarnation = name.incarnation,
                .tenant = name.tenant,
                .is_known = is_known};
    std::map<std::uint32_t, RankView> ranks;
    double could = 0, did = 0;
    for (const auto& [node, k, is] : parts) {
      const JobStatus& part = *is;
      job.world_size = std::max(job.world_size, part.world_size);
      job.is_joining |= part.joining();
      add_states(part, ranks);
      if (part.stuck) job.waited_s = std::max(job.waited_s, part.stuck->waited_s);
      if (part.stuck && job.waits_in.empty()) job.waits_in = part.stuck->operation;
      if (!is_known || k >= records_[node].job_rates().size()) continue;
      const JobRates& rates = records_[node].job_rates()[k];
      job.sums += rates.sums;
      job.goodput_bits +=
          rates.sums * static_cast<double>(part.values_per_fragment) * kBitsPerValue;
      could += rates.sums_that_switches_could_add;
      did += rates.sums_in_switches;
    }
    if (could > 0) job.share_summed = did / could;
    find_ways(name, parts, ranks);
    find_delays(name, ranks);
    for (auto& [rank, view] : ranks) job.ranks.push_back(std::move(view));
    view_.jobs.push_back(std::move(job));
  }

  static void worsen(std::map<std::uint32_t, RankView>& ranks, const RankSet& of, RankState state) {
    of.for_each([&](Rank rank) {
      const auto [at, is_new] = ranks.try_emplace(rank, RankView{.rank = rank, .state = state});
      if (!is_new) at->second.state = std::max(at->second.state, state);
    });
  }

  static void add_states(const JobStatus& part, std::map<std::uint32_t, RankView>& ranks) {
    worsen(ranks, part.joined, RankState::kJoined);
    worsen(ranks, part.left, RankState::kLeft);
    worsen(ranks, part.detached, RankState::kDetached);
    worsen(ranks, part.waited_for, RankState::kStraggler);
    worsen(ranks, part.missing, RankState::kMissing);
    worsen(ranks, part.lost, RankState::kLost);
    for (auto& [rank, view] : ranks) {
      if (rank < part.hosts.size() && !part.hosts[rank].empty()) view.host = part.hosts[rank];
    }
    if (!part.stuck) return;
    for (const auto& [rank, host] : part.stuck->ranks) {
      worsen(ranks, RankSet::of(static_cast<Rank>(rank)), RankState::kStuck);
      if (!host.empty()) ranks.at(static_cast<Rank>(rank)).host = host;
    }
  }

  // The lowest switch that has a rank; of those that send straight to a server, the server.
  void find_ways(const JobName& name, const Parts& parts,
                 std::map<std::uint32_t, RankView>& ranks) {
    std::map<std::uint32_t, std::set<std::size_t>> on_way;  // all switches above a rank
    std::set<std::pair<std::size_t, std::size_t>> arrows;   // of this job, upward
    for (const Part& tree : now_[name]) {
      if (!records_[tree.node].status()->is_switch()) continue;
      tree.job->joined.for_each([&](Rank rank) { on_way[rank].insert(tree.node); });
      if (const auto parent = index_of(tree.job->parent)) arrows.emplace(tree.node, *parent);
    }
    const JobView* old = before_.find_job(name);
    for (auto& [rank, view] : ranks) {
      if (view.state == RankState::kMissing) continue;
      if (old != nullptr) remember(*old, view);
      // Its switch has just died, and it does not send to the next one up yet.
      const bool is_orphan = view.via && !is_up(*view.via);
      const std::set<std::size_t>& switches = on_way[rank];
      for (const std::size_t at : switches) {
        const bool is_lowest = std::none_of(switches.begin(), switches.end(), [&](std::size_t one) {
          return arrows.contains({one, at});
        });
        if (is_lowest && !is_orphan) view.via = at;
        if (is_lowest) break;
      }
      const bool is_straight =
          view.state == RankState::kDetached || (switches.empty() && !view.via && !parts.empty());
      if (is_straight) view.via = parts.front().node;
    }
  }

  // Nodes that are not asked may have a different index now.
  void remember(const JobView& old, RankView& view) const {
    const auto was =
        std::lower_bound(old.ranks.begin(), old.ranks.end(), view.rank,
                         [](const RankView& one, std::uint32_t rank) { return one.rank < rank; });
    if (was == old.ranks.end() || was->rank != view.rank) return;
    if (was->via && *was->via < records_.size()) view.via = was->via;
    if (view.host.empty()) view.host = was->host;
  }

  // Ranks that a switch has summed arrive together further up, so the largest value is right.
  void find_delays(const JobName& name, std::map<std::uint32_t, RankView>& ranks) {
    for (const Part& part : now_[name]) {
      for (const RankDelay& delay : part.job->lateness) {
        const auto at = ranks.find(static_cast<std::uint32_t>(delay.rank));
        if (at == ranks.end()) continue;
        std::optional<RankDelay>& known = at->second.delay;
        if (!known || known->typical_us() < delay.typical_us()) known = delay;
      }
    }
  }

  const ViewSite& site_;
  const std::vector<NodeRecord>& records_;
  const ClusterView& before_;
  ClusterView view_;
  std::map<std::string, std::size_t> indexes_;
  std::map<JobName, Parts> now_;  // in the answers of the nodes that are up
};

}  // namespace

RankSet JobView::in(RankState state) const {
  RankSet set;
  for (const RankView& one : ranks) {
    if (one.state == state) set.insert(static_cast<Rank>(one.rank));
  }
  return set;
}

const FailedJob* ClusterView::find_failure(const JobName& name) const {
  const auto found = std::find_if(failures.begin(), failures.end(),
                                  [&](const FailedJob& one) { return is_same_job(one, name); });
  return found == failures.end() ? nullptr : &*found;
}

const JobView* ClusterView::find_job(const JobName& name) const {
  const auto found = std::lower_bound(
      jobs.begin(), jobs.end(), name,
      [](const JobView& one, const JobName& other) { return is_job_before(one, other); });
  return found == jobs.end() || !is_same_job(*found, name) ? nullptr : &*found;
}

ClusterView make_cluster_view(const ViewSite& site, const std::vector<NodeRecord>& records,
                              const ClusterView& before, double time_s) {
  return Builder(site, records, before).build(time_s);
}

}  // namespace atp
