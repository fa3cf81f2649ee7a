// What a world says about a run: counters, violations, who is unfinished.
#include <algorithm>

#include "atp/sim/add_counters.h"
#include "atp/sim/world.h"

namespace atp::sim {
Counters<SwitchCounter> World::switch_counters() const {
  Counters<SwitchCounter> sum = past_lives_;
  for (const Host& host : hosts_) {
    if (const auto* node = std::get_if<SwitchNode>(&host.node)) add_to(sum, node->counters());
  }
  return sum;
}

Counters<WorkerCounter> World::worker_counters() const {
  Counters<WorkerCounter> sum;
  for (const Host& host : hosts_) {
    if (const auto* member = std::get_if<Member>(&host.node)) {
      add_to(sum, member->worker.counters());
    }
  }
  return sum;
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
  std::size_t held = std::get<Server>(hosts_[0].node).job_count();
  for (const Host& host : hosts_) {
    const auto* node = std::get_if<SwitchNode>(&host.node);
    if (node != nullptr && host.alive) held += node->trees();
  }
  return held;
}

void World::check_release() {
  // What is still on the way may claim an aggregator once more.
  const Duration late = plan_.delay.base + plan_.delay.jitter + std::chrono::seconds(1);
  const Duration limit = late + plan_.timing.reclaim + 2 * plan_.timing.sweep;
  if (!run(limit, [this] { return aggregators_in_use() == 0 && queue_.empty(); }) &&
      aggregators_in_use() > 0) {
    violations_.push_back(std::to_string(aggregators_in_use()) + " aggregators are never released");
  }
}

void World::check_departure() {
  for (HostId host = 0; host < hosts_.size(); ++host) {
    auto* member = std::get_if<Member>(&hosts_[host].node);
    if (member == nullptr || member->application.left()) continue;
    member->application.leave();
    hosts_[host].wake = now_;
  }
  // One whose LEAVE never arrived is forgotten with its lease.
  const Duration limit = 3 * plan_.timing.lease;
  run(limit, [this] { return all(&Application::left) && jobs_held() == 0; });
  if (!all(&Application::left)) violations_.push_back("a worker's LEAVE has no end");
  if (jobs_held() > 0) violations_.push_back("a job is still held after all have left");
  if (outbox_.lost() > 0) violations_.push_back("an outbox overflowed");
}

std::vector<std::string> World::violations() const {
  std::vector<std::string> all = violations_;
  for (const Host& host : hosts_) {
    const auto* member = std::get_if<Member>(&host.node);
    if (member == nullptr) continue;
    for (const std::string& violation : member->application.violations()) {
      all.push_back(name_of(host.endpoint) + ": " + violation);
    }
  }
  return all;
}

std::string World::unfinished() const {
  std::string list;
  for (const Host& host : hosts_) {
    const auto* member = std::get_if<Member>(&host.node);
    if (member == nullptr || !host.alive || member->application.finished()) continue;
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
  if (*host == server_host()) return "server";
  if (const auto* member = std::get_if<Member>(&hosts_[*host].node)) {
    return "worker" + std::to_string(member->application.job()) + "." +
           std::to_string(member->application.rank());
  }
  return "switch" + std::to_string(*host - switch_host(0));
}

}  // namespace atp::sim
