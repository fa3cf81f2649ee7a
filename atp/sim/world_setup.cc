// How a world is made from its plan, and the faults that scenarios cause by hand.
#include <algorithm>
#include <cstdlib>

#include "atp/sim/add_counters.h"
#include "atp/sim/world.h"

namespace atp::sim {
namespace {

constexpr std::size_t kOutboxPackets = 2048;
constexpr std::size_t kOutboxBytes = std::size_t{1} << 20;
Endpoint server_endpoint() { return Endpoint::ipv4(10, 2, 0, 1, ATP_DEFAULT_SERVER_PORT); }
Endpoint switch_endpoint(std::uint32_t index) {
  return Endpoint::ipv4(10, 1, 0, static_cast<std::uint8_t>(index + 1), ATP_DEFAULT_SWITCH_PORT);
}
Endpoint worker_endpoint(std::uint32_t job, Rank rank) {
  return Endpoint::ipv4(10, 0, static_cast<std::uint8_t>(job), static_cast<std::uint8_t>(rank + 1),
                        7000);
}

ServerConfig server_config(const Plan& plan) {
  ServerConfig config = plan.server_config;
  config.timing = plan.timing;
  config.seed = plan.seed + 17;
  return config;
}

SwitchConfig switch_config(const Plan& plan, std::uint64_t life) {
  SwitchConfig config = plan.switch_config;
  config.timing = plan.timing;
  config.seed = plan.seed + 29 + life;
  const Endpoint anyone = Endpoint::ipv4(10, 0, 0, 0, 0);
  config.upstream = UpstreamPolicy({Prefix{anyone.address, 96 + 8}});
  return config;
}

WorkerConfig worker_config(const Plan& plan, std::uint32_t index, Rank rank) {
  const JobPlan& job = plan.jobs[index];
  WorkerConfig config;
  config.job = job.key;
  config.rank = rank;
  config.world_size = job.world_size;
  config.nonce = plan.nonce(job, rank);
  config.first_stream = job.first_stream;
  config.stream_count = job.stream_count;
  config.max_value_count = job.max_value_count;
  config.scale_mode = job.scale_mode;
  config.max_operations = 64;
  config.seed = plan.seed * 31 + index * 1021 + rank;
  config.timing = plan.timing;
  const int parent = rank < job.parent.size() ? job.parent[rank] : plan.switches > 0 ? 0 : -1;
  if (parent >= 0) config.route.push_back(switch_endpoint(static_cast<std::uint32_t>(parent)));
  config.route.push_back(server_endpoint());
  return config;
}

}  // namespace

World::World(Plan plan)
    : plan_(std::move(plan)),
      random_(plan_.seed * 0x51ed + 3),
      oracle_(plan_.jobs, plan_.server_config.scale),
      outbox_(kOutboxPackets, kOutboxBytes),
      trace_(std::getenv("ATP_TRACE") != nullptr) {
  hosts_.push_back({server_endpoint(), Server(server_config(plan_))});
  for (std::uint32_t i = 0; i < plan_.switches; ++i) {
    hosts_.push_back({switch_endpoint(i), SwitchNode(switch_config(plan_, 0))});
  }
  for (std::uint32_t job = 0; job < plan_.jobs.size(); ++job) {
    for (Rank rank = 0; rank < plan_.jobs[job].world_size; ++rank) add_worker(job, rank);
  }
  make_paths();
  for (const Outage& outage : plan_.outages) schedule(outage);
  if (plan_.heal.count() > 0) at(Instant{plan_.heal}, [this] { heal(); });
}

void World::add_worker(std::uint32_t job, Rank rank) {
  hosts_.push_back({worker_endpoint(job, rank), Member{Worker(worker_config(plan_, job, rank)),
                                                       Application(plan_, job, rank)}});
  const Application& application = std::get<Member>(hosts_.back().node).application;
  hosts_.back().wake = application.next_action();
  if (application.next_action() >= Instant{std::chrono::milliseconds(50)}) {
    faults_.add(Fault::kLateStart);
  }
}

void World::make_paths() {
  paths_.reserve(hosts_.size() * hosts_.size());
  for (std::size_t i = 0; i < hosts_.size() * hosts_.size(); ++i) {
    PathFaults faults;
    if (!plan_.path_faults.empty()) {
      faults = plan_.path_faults[random_.below(plan_.path_faults.size())];
    }
    paths_.emplace_back(plan_.delay, faults);
  }
}

void World::schedule(const Outage& outage) {
  at(outage.at, [this, outage] {
    switch (outage.kind) {
      case Outage::Kind::kClog: clog(outage.host, outage.peer, outage.length); break;
      case Outage::Kind::kPause: pause(outage.host, outage.length); break;
      case Outage::Kind::kSwitchDeath: kill(outage.host); break;
    }
  });
  if (outage.kind == Outage::Kind::kSwitchDeath && outage.length != Outage::kForever) {
    at(outage.at + outage.length, [this, outage] { restart_switch(outage.host - switch_host(0)); });
  }
}

World::HostId World::worker_host(Rank rank, std::uint32_t job) const {
  HostId host = 1 + plan_.switches + rank;
  for (std::uint32_t j = 0; j < job; ++j) host += plan_.jobs[j].world_size;
  return host;
}

// --- faults by hand

void World::heal() {
  for (Path& path : paths_) path.heal();
  for (Host& host : hosts_) host.paused_until = std::min(host.paused_until, now_);
}

void World::kill(HostId host) {
  if (!hosts_[host].alive) return;
  hosts_[host].alive = false;
  if (std::holds_alternative<SwitchNode>(hosts_[host].node)) faults_.add(Fault::kSwitchDeath);
}

void World::restart_switch(std::uint32_t index) {
  Host& host = hosts_[switch_host(index)];
  faults_.add(Fault::kSwitchReturn);
  add_to(past_lives_, std::get<SwitchNode>(host.node).counters());
  host.node = SwitchNode(switch_config(plan_, faults_[Fault::kSwitchReturn]));
  host.alive = true;
  host.wake = kNever;
}

void World::restart_server(std::uint64_t boot_id) {
  ServerConfig config = server_config(plan_);
  config.boot_id = boot_id;
  hosts_[server_host()].node = Server(config);
  hosts_[server_host()].alive = true;
  hosts_[server_host()].wake = kNever;
}

void World::pause(HostId host, Duration length) {
  hosts_[host].paused_until = std::max(hosts_[host].paused_until, now_ + length);
  faults_.add(Fault::kPause);
}

void World::clog(HostId from, HostId to, Duration length) {
  paths_[from * hosts_.size() + to].clog(now_ + length);
}

void World::at(Instant when, std::function<void()> action) {
  queue_.push(when, {Event::Kind::kAction, static_cast<std::uint32_t>(actions_.size()), 0});
  actions_.push_back(std::move(action));
}

void World::inject(const Endpoint& from, const Endpoint& to, std::span<const std::uint8_t> bytes,
                   Duration delay) {
  put_in_flight(from, to, bytes, now_ + delay);
}

}  // namespace atp::sim
