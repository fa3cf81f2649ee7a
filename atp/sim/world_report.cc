// A world's report about a run: counters, violations, and who has not finished.
#include <algorithm>

#include "atp/sim/world.h"

namespace atp::sim {
Counters<SwitchCounter> World::switch_counters() const {
  Counters<SwitchCounter> sum = past_switches_;
  for (const Host& host : hosts_) {
    if (const auto* node = std::get_if<SwitchNode>(&host.node)) sum += node->counters();
  }
  return sum;
}

Counters<ServerCounter> World::server_counters() const {
  Counters<ServerCounter> sum = past_servers_;
  for (const Host& host : hosts_) {
    if (const auto* node = std::get_if<Server>(&host.node)) sum += node->counters();
  }
  return sum;
}

FaultCounters World::faults() const {
  FaultCounters all = faults_;
  all.add(Fault::kQueueLoss, network_.lost_in_queues());
  all.add(Fault::kEcnMark, network_.marked());
  if (outbox_is_small_) all.add(Fault::kOutboxLoss, outbox_.lost());
  return all;
}

Counters<WorkerCounter> World::worker_counters() const {
  Counters<WorkerCounter> sum;
  for (const Host& host : hosts_) {
    if (const auto* member = std::get_if<Member>(&host.node)) {
      sum += member->worker.counters();
    }
  }
  return sum;
}

bool World::may_fail(std::uint32_t job) const {
  const JobPlan& plan = plan_.jobs[job];
  return !lost_ranks_[job].empty() || lost_servers_[plan.server] || plan_.is_crowded() ||
         plan.deviator || plan.abort;
}

bool World::settled(const Host& host) const {
  const auto* member = std::get_if<Member>(&host.node);
  if (!host.alive) return !host.returns;
  if (member == nullptr || member->application.finished() || member->application.aborted()) {
    return true;
  }
  return member->application.failed() && may_fail(member->application.job());
}

// A failure must name the rank or server that was lost, or a survivor that gave up because of it,
// since a rank that has given up renews no lease. A rank that was itself lost and restarted may be
// told that its place is taken.
std::optional<std::string> World::objection(const Application& application) const {
  if (application.finished() || !application.failure()) return std::nullopt;
  if (!may_fail(application.job())) return std::nullopt;
  const Failure& failure = *application.failure();
  // What a rank that leaves has not completed ends with that.
  if (application.aborted() && failure.code == FailureCode::kLeft) return std::nullopt;
  const RankSet& lost = lost_ranks_[application.job()];
  // If every rank was lost and restarted within the incarnation, which a user must not do, stale
  // packets of the first start cannot be told apart from those of the second.
  const bool is_remembered = lost.size() < plan_.jobs[application.job()].world_size;
  if (failure.code == FailureCode::kNoProgress && is_remembered) {
    return "learned of a loss by its time-out alone";
  }
  if (lost.contains(application.rank())) return std::nullopt;
  const JobPlan& plan = plan_.jobs[application.job()];
  const bool is_all = lost.empty() && !lost_servers_[plan.server] && !plan_.is_crowded();
  if (is_all || failure.code == FailureCode::kOperationMismatch) {
    return objection_to_names(application);
  }
  if (failure.code == FailureCode::kRefused && plan_.is_crowded()) return std::nullopt;
  const std::uint32_t server = plan_.jobs[application.job()].server;
  const bool is_of_server =
      failure.code == FailureCode::kServerLost || failure.code == FailureCode::kServerRestarted;
  if (lost_servers_[server] && is_of_server) {
    if (failure.endpoint == hosts_[server_host(server)].endpoint) return std::nullopt;
    return "blames " + name_of(failure.endpoint) + " for the death of its server";
  }
  // A server that has returned has forgotten all ranks, and one that is still dead answers nobody.
  if (lost_servers_[server] && failure.code == FailureCode::kJoinTimeout) return std::nullopt;
  const bool is_loss = failure.code == FailureCode::kRankLost ||
                       failure.code == FailureCode::kJoinTimeout ||
                       (plan.abort && failure.code == FailureCode::kRankLeft);
  bool is_named = is_loss && !failure.ranks.empty();
  failure.ranks.for_each([&](Rank rank) {
    const auto& member = std::get<Member>(hosts_[worker_host(rank, application.job())].node);
    is_named &= lost.contains(rank) || member.application.failed() || member.application.aborted();
  });
  if (is_named) return std::nullopt;
  return "failed with code " + std::to_string(static_cast<int>(failure.code)) +
         ", which does not name " +
         (lost_servers_[server] ? "the server that has died" : "the rank that was lost");
}

// If nothing but a rank's deviation or departure makes a job fail, every error must name that rank
// and no other as the one that is apart from the rest.
std::optional<std::string> World::objection_to_names(const Application& application) const {
  const JobPlan& plan = plan_.jobs[application.job()];
  const Failure& failure = *application.failure();
  const auto is_alone = [&](const RankSet& here, const RankSet& there) {
    return plan.deviator && here == RankSet::of(*plan.deviator) && !there.empty() &&
           !there.intersects(here);
  };
  if (failure.code == FailureCode::kOperationMismatch) {
    if (is_alone(failure.ranks, failure.other) || is_alone(failure.other, failure.ranks)) {
      return std::nullopt;
    }
    return "was told of a mismatch that does not set the deviating rank apart";
  }
  const bool is_departure =
      failure.code == FailureCode::kRankLeft || failure.code == FailureCode::kRankLost;
  if (plan.abort && is_departure && failure.ranks == RankSet::of(plan.abort->rank)) {
    return std::nullopt;
  }
  return "failed with code " + std::to_string(static_cast<int>(failure.code)) +
         ", which does not name the rank that " + (plan.deviator ? "deviated" : "left");
}

bool World::all(bool (Application::*property)() const) const {
  return std::all_of(hosts_.begin(), hosts_.end(), [&](const Host& host) {
    const auto* member = std::get_if<Member>(&host.node);
    return member == nullptr || !host.alive || (member->application.*property)();
  });
}

std::size_t World::aggregators_in_use() const {
  std::size_t in_use = 0;
  for (const Host& host : hosts_) {
    const auto* node = std::get_if<SwitchNode>(&host.node);
    if (node != nullptr && host.alive) in_use += node->aggregators_in_use();
  }
  return in_use;
}

std::size_t World::jobs_held() const {
  std::size_t held = 0;
  for (const Host& host : hosts_) {
    if (!host.alive) continue;
    if (const auto* server = std::get_if<Server>(&host.node)) held += server->job_count();
    if (const auto* node = std::get_if<SwitchNode>(&host.node)) held += node->trees();
  }
  return held;
}

void World::check_release() {
  is_over_ = true;
  // Packets still in flight, or sent again by an attacker before the faults stop, may claim an
  // aggregator once more.
  const Duration until_healed = std::max(Instant{plan_.heal} - now(), Duration{0});
  Duration late = plan_.fabric.longest_delay() + std::chrono::seconds(1);
  for (const PathFaults& path : plan_.path_faults) late = std::max(late, path.stale_max);
  const Duration limit = until_healed + 2 * late + plan_.timing.reclaim + 2 * plan_.timing.sweep;
  if (!run(limit, [this] { return aggregators_in_use() == 0 && network_.in_flight() == 0; }) &&
      aggregators_in_use() > 0) {
    violations_.push_back(std::to_string(aggregators_in_use()) + " aggregators are never released");
  }
}

void World::check_departure() {
  for (HostId host = 0; host < hosts_.size(); ++host) {
    auto* member = std::get_if<Member>(&hosts_[host].node);
    if (member == nullptr || !hosts_[host].alive || member->application.left()) continue;
    member->application.leave();
    wake_at(host, now());
  }
  // A rank whose LEAVE never arrived is forgotten when its lease ends; a node that is stopped until
  // the faults are, forgets nothing before.
  const Duration until_healed = std::max(Instant{plan_.heal} - now(), Duration{0});
  const Duration limit = until_healed + 3 * plan_.timing.lease;
  run(limit, [this] { return all(&Application::left) && jobs_held() == 0; });
  if (!all(&Application::left)) violations_.push_back("a worker's LEAVE has no end");
  if (jobs_held() > 0) violations_.push_back("a job is still held after all have left");
  if (!outbox_is_small_ && outbox_.lost() > 0) violations_.push_back("an outbox overflowed");
  for (Host& host : hosts_) {
    if (auto* member = std::get_if<Member>(&host.node)) member->application.check_untouched();
  }
}

std::vector<std::string> World::violations() const {
  std::vector<std::string> all = violations_;
  add_objections(all);
  for (const Host& host : hosts_) {
    const auto* member = std::get_if<Member>(&host.node);
    if (member == nullptr) continue;
    for (const std::string& violation : member->application.violations()) {
      all.push_back(name_of(host.endpoint) + ": " + violation);
    }
    if (!host.alive) continue;
    if (const auto wrong = objection(member->application)) {
      all.push_back(name_of(host.endpoint) + ": " + *wrong);
    }
  }
  return all;
}

std::string World::unfinished() const {
  std::string list;
  for (const Host& host : hosts_) {
    const auto* member = std::get_if<Member>(&host.node);
    if (member == nullptr || settled(host)) continue;
    const Application& application = member->application;
    list += name_of(host.endpoint) + (application.joined() ? " joined, " : " not joined, ") +
            std::to_string(application.completed()) + " operations completed";
    if (application.failure()) {
      list += ", failed with code " + std::to_string(static_cast<int>(application.failure()->code));
    }
    list += "\n";
  }
  return list;
}

std::string World::name_of(const Endpoint& endpoint) const {
  const std::optional<HostId> host = host_at(endpoint);
  if (!host) return to_string(endpoint);
  if (*host < plan_.servers) {
    return plan_.servers == 1 ? "server" : "server" + std::to_string(*host);
  }
  if (const auto* member = std::get_if<Member>(&hosts_[*host].node)) {
    return "worker" + std::to_string(member->application.job()) + "." +
           std::to_string(member->application.rank());
  }
  return "switch" + std::to_string(*host - switch_host(0));
}

}  // namespace atp::sim
