// The judges of each turn, if the plan is `watched`.
#include <algorithm>

#include "atp/sim/world.h"

namespace atp::sim {

void World::begin_turn(HostId id, const Endpoint& from, std::span<const std::uint8_t> bytes) {
  if (!plan_.watched) return;
  const Host& host = hosts_[id];
  if (const auto* node = std::get_if<SwitchNode>(&host.node)) {
    switch_judges_[id - switch_host(0)].begin(*node, bytes);
  } else if (const auto* member = std::get_if<Member>(&host.node)) {
    const bool counts = !from.unset() && member->worker.joined();
    if (counts) worker_judges_[number_of_worker(id)].took(from, bytes);
  }
}

void World::end_turn(HostId id, const Endpoint& from, std::span<const std::uint8_t> bytes) {
  if (!plan_.watched) return;
  const Host& host = hosts_[id];
  if (const auto* node = std::get_if<SwitchNode>(&host.node)) {
    SwitchJudge& judge = switch_judges_[id - switch_host(0)];
    if (from.unset()) return judge.end_timeout(now(), *node, outbox_);
    judge.end_packet(now(), from, bytes, *node, outbox_);
  } else if (const auto* server = std::get_if<Server>(&host.node)) {
    server_judges_[id].end_turn(now(), from, bytes, *server, outbox_);
  } else {
    const Worker& worker = std::get<Member>(host.node).worker;
    const std::uint64_t room_cuts = worker.counters()[WorkerCounter::kRoomCuts];
    worker_judges_[number_of_worker(id)].end_turn(now(), worker.attached(), room_cuts, outbox_);
  }
}

// A restarted node has no memory, so its judge starts again too.
void World::judge_anew(HostId id) {
  if (!plan_.watched) return;
  if (std::holds_alternative<SwitchNode>(hosts_[id].node)) {
    switch_judges_[id - switch_host(0)].begin_anew();
  } else if (std::holds_alternative<Server>(hosts_[id].node)) {
    server_judges_[id].begin_anew();
  } else {
    worker_judges_[number_of_worker(id)].begin_anew();
  }
}

bool World::passes(std::uint64_t sequence) const {
  return std::any_of(worker_judges_.begin(), worker_judges_.end(),
                     [&](const WorkerJudge& judge) { return judge.has_passed(sequence); });
}

void World::add_objections(std::vector<std::string>& all) const {
  const auto add = [&](HostId host, const std::vector<std::string>& objections) {
    for (const std::string& objection : objections) {
      all.push_back(name_of(hosts_[host].endpoint) + ": " + objection);
    }
  };
  HostId host = 0;
  for (const ServerJudge& judge : server_judges_) add(host++, judge.violations());
  for (const SwitchJudge& judge : switch_judges_) add(host++, judge.violations());
  for (const WorkerJudge& judge : worker_judges_) add(host++, judge.violations());
}

}  // namespace atp::sim
