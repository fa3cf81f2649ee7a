// Makes a world from its plan, and carries out the faults that scenarios cause by hand.
#include <algorithm>
#include <set>

#include "atp/sim/probes.h"
#include "atp/sim/world.h"

namespace atp::sim {
namespace {

constexpr std::size_t kOutboxBytes = std::size_t{1} << 20;

Endpoint server_endpoint(std::uint32_t index) {
  return Endpoint::ipv4(10, 2, 0, static_cast<std::uint8_t>(index + 1), ATP_DEFAULT_SERVER_PORT);
}
Endpoint switch_endpoint(std::uint32_t index) {
  return Endpoint::ipv4(10, 1, 0, static_cast<std::uint8_t>(index + 1), ATP_DEFAULT_SWITCH_PORT);
}
Endpoint worker_endpoint(std::uint32_t job, Rank rank) {
  return Endpoint::ipv4(10, static_cast<std::uint8_t>(100 + job),
                        static_cast<std::uint8_t>(rank / 256),
                        static_cast<std::uint8_t>(rank % 256), 7000);
}

std::uint32_t rack_of(const std::vector<std::uint32_t>& racks, std::size_t index) {
  return index < racks.size() ? racks[index] : 0;
}

const LinkPlan& link_of(const std::vector<LinkPlan>& links, std::size_t index,
                        const LinkPlan& otherwise) {
  return index < links.size() ? links[index] : otherwise;
}

ServerConfig server_config(const Plan& plan, std::uint32_t index) {
  ServerConfig config = plan.server_config;
  config.quotas = plan.quotas.get();
  config.boot_id += index;
  config.secret = {plan.seed + 41, config.boot_id};
  config.timing = plan.timing;
  config.seed = plan.seed + 17 + index;
  config.first_sequence = plan.first_sequence;
  return config;
}

SwitchConfig switch_config(const Plan& plan, std::uint32_t index, std::uint64_t life) {
  SwitchConfig config = plan.switch_config_of(index);
  config.quotas = plan.quotas.get();
  config.timing = plan.timing;
  config.seed = plan.seed + 29 + life;
  config.secret = {plan.seed + 43, life << 32 | index};
  const Endpoint anyone = Endpoint::ipv4(10, 0, 0, 0, 0);
  config.upstream = UpstreamPolicy({Prefix{anyone.address, 96 + 8}});
  return config;
}

// The number of servers over which the job's tensors are spread.
std::uint16_t servers_of(const Plan& plan, const JobPlan& job) {
  std::set<std::uint16_t> first_streams;
  for (const JobPlan& other : plan.jobs) {
    if (other.key == job.key) first_streams.insert(other.first_stream);
  }
  return static_cast<std::uint16_t>(first_streams.size());
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
  config.max_value_count = job.value_count_of(rank);
  config.number_format = job.number_format;
  config.overflow = job.overflow;
  config.congestion = job.congestion;
  config.room = job.room;
  config.plain_repeats = job.plain_repeats;
  config.tolerance = job.tolerance;
  config.servers = servers_of(plan, job);
  config.max_operations = job.max_operations;
  config.first_sequence = plan.first_sequence;
  config.first_operation = plan.first_operation;
  config.seed = plan.seed * 31 + index * 1021 + rank;
  config.timing = plan.timing;
  for (const std::uint32_t at : plan.switches_of(job, rank)) {
    config.route.push_back(switch_endpoint(at));
  }
  config.route.push_back(server_endpoint(job.server));
  return config;
}

}  // namespace

World::World(Plan plan)
    : plan_(std::move(plan)),
      random_(plan_.seed * 0x51ed + 3),
      oracle_(plan_),
      outbox_(plan_.outbox_packets, kOutboxBytes),
      lost_ranks_(plan_.jobs.size()),
      lost_servers_(plan_.servers),
      hostile_(plan_.seed + 41) {
  const Within part(Part::kMaking);
  const FabricPlan& fabric = plan_.fabric;
  for (const LinkPlan& link : fabric.rack_links) network_.add_rack(link);
  for (std::uint32_t i = 0; i < plan_.servers; ++i) {
    hosts_.push_back({server_endpoint(i), Server(server_config(plan_, i))});
    network_.add_host(rack_of(fabric.server_rack, i),
                      link_of(fabric.server_links, i, fabric.server), fabric.rack);
  }
  for (std::uint32_t i = 0; i < plan_.switches; ++i) {
    hosts_.push_back({switch_endpoint(i), SwitchNode(switch_config(plan_, i, 0))});
    network_.add_host(rack_of(fabric.switch_rack, i),
                      link_of(fabric.switch_links, i, fabric.switch_node), fabric.rack);
  }
  for (std::uint32_t job = 0; job < plan_.jobs.size(); ++job) {
    for (Rank rank = 0; rank < plan_.jobs[job].world_size; ++rank) add_worker(job, rank);
    if (plan_.jobs[job].deviator) faults_.add(Fault::kMismatch);
    if (plan_.jobs[job].abort) faults_.add(Fault::kAbort);
  }
  for (HostId host = 0; host < hosts_.size(); ++host) {
    host_ids_.insert(hosts_[host].endpoint, host);
    if (plan_.watched) make_judge(host);
    arm(host);
  }
  if (!plan_.path_faults.empty() || plan_.fabric.jitter > Duration{0}) make_paths();
  for (const Outage& outage : plan_.outages) schedule(outage);
  if (plan_.heal.count() > 0) at(Instant{plan_.heal}, [this] { heal(); });
}

// Called in the order of the hosts.
void World::make_judge(HostId host) {
  if (std::holds_alternative<Server>(hosts_[host].node)) {
    server_judges_.emplace_back(server_config(plan_, host), hosts_[host].endpoint,
                                ATP_DEFAULT_SWITCH_PORT);
  } else if (std::holds_alternative<SwitchNode>(hosts_[host].node)) {
    switch_judges_.emplace_back(switch_config(plan_, host - switch_host(0), 0),
                                hosts_[host].endpoint, plan_.server_config.wmax);
  } else {
    const Application& application = std::get<Member>(hosts_[host].node).application;
    worker_judges_.emplace_back(worker_config(plan_, application.job(), application.rank()),
                                plan_.server_config.wmax);
  }
}

void World::add_worker(std::uint32_t job, Rank rank) {
  hosts_.push_back({worker_endpoint(job, rank), Member{Worker(worker_config(plan_, job, rank)),
                                                       Application(plan_, job, rank)}});
  network_.add_host(rack_of(plan_.jobs[job].rack, rank),
                    link_of(plan_.jobs[job].link, rank, plan_.fabric.worker), plan_.fabric.rack);
  const Application& application = std::get<Member>(hosts_.back().node).application;
  hosts_.back().wake = application.next_action();
  if (application.next_action() >= Instant{std::chrono::milliseconds(50)}) {
    faults_.add(Fault::kLateStart);
  }
}

void World::make_paths() {
  const std::size_t count = hosts_.size() * hosts_.size();
  paths_.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    PathFaults faults;
    if (!plan_.path_faults.empty()) {
      faults = plan_.path_faults[random_.below(plan_.path_faults.size())];
    }
    paths_.emplace_back(faults, plan_.fabric.jitter);
  }
}

Path& World::path(HostId from, HostId to) {
  if (paths_.empty()) make_paths();
  return paths_[from * hosts_.size() + to];
}

void World::schedule(const Outage& outage) {
  at(outage.at, [this, outage] {
    switch (outage.kind) {
      case Outage::Kind::kClog: clog(outage.host, outage.peer, outage.length); break;
      case Outage::Kind::kOneWay: cut(outage.host, outage.peer, outage.length); break;
      case Outage::Kind::kPause: pause(outage.host, outage.length); break;
      case Outage::Kind::kMove: change_address(outage.host); break;
      case Outage::Kind::kDeath:
        // Once everything is complete and leftovers are being checked, only switches still die.
        if (is_over_ && !std::holds_alternative<SwitchNode>(hosts_[outage.host].node)) break;
        kill(outage.host);
        hosts_[outage.host].returns = outage.length != Outage::kForever;
        break;
    }
  });
  if (outage.kind == Outage::Kind::kDeath && outage.length != Outage::kForever) {
    at(outage.at + outage.length, [this, outage] { revive(outage.host); });
  }
}

World::HostId World::worker_host(Rank rank, std::uint32_t job) const {
  HostId host = plan_.servers + plan_.switches + rank;
  for (std::uint32_t j = 0; j < job; ++j) host += plan_.jobs[j].world_size;
  return host;
}

// --- faults by hand

void World::heal() {
  for (Path& path : paths_) path.heal();
  network_.lift_queue_limits();
  if (outbox_is_small_) {
    faults_.add(Fault::kOutboxLoss, outbox_.lost());
    outbox_ = Outbox(Plan{}.outbox_packets, kOutboxBytes);
    outbox_is_small_ = false;
  }
  for (HostId id = 0; id < hosts_.size(); ++id) {
    hosts_[id].paused_until = std::min(hosts_[id].paused_until, now());
    arm(id);
  }
}

// The sockets of one rank belong to one process, whatever their servers.
bool World::same_process(HostId a, HostId b) const {
  const auto* one = std::get_if<Member>(&hosts_[a].node);
  const auto* other = std::get_if<Member>(&hosts_[b].node);
  if (one == nullptr || other == nullptr) return a == b;
  const JobPlan& job = plan_.jobs[one->application.job()];
  const JobPlan& other_job = plan_.jobs[other->application.job()];
  return one->application.rank() == other->application.rank() && job.key == other_job.key &&
         job.nonce_salt == other_job.nonce_salt;
}

void World::kill(HostId host) {
  if (!hosts_[host].alive) return;
  if (std::holds_alternative<SwitchNode>(hosts_[host].node)) faults_.add(Fault::kSwitchDeath);
  if (std::holds_alternative<Server>(hosts_[host].node)) faults_.add(Fault::kServerDeath);
  if (std::holds_alternative<Member>(hosts_[host].node)) faults_.add(Fault::kWorkerDeath);
  for (HostId other = 0; other < hosts_.size(); ++other) {
    if (same_process(host, other)) lose(other);
  }
}

void World::lose(HostId id) {
  Host& host = hosts_[id];
  host.alive = false;
  news_ = true;
  if (const auto* member = std::get_if<Member>(&host.node)) {
    lost_ranks_[member->application.job()].insert(member->application.rank());
  } else if (std::holds_alternative<Server>(host.node)) {
    lost_servers_[id] = true;
  }
}

void World::revive(HostId host) {
  if (hosts_[host].alive) return;
  hosts_[host].returns = false;
  if (std::holds_alternative<Server>(hosts_[host].node)) {
    restart_server(1000 + faults_[Fault::kServerReturn] * plan_.servers + host, host);
  } else if (std::holds_alternative<SwitchNode>(hosts_[host].node)) {
    restart_switch(host - switch_host(0));
  } else {
    restart_worker(host);
  }
}

void World::restart_switch(std::uint32_t index) {
  Host& host = hosts_[switch_host(index)];
  faults_.add(Fault::kSwitchReturn);
  past_switches_ += std::get<SwitchNode>(host.node).counters();
  const SwitchConfig config = switch_config(plan_, index, faults_[Fault::kSwitchReturn]);
  host.node = SwitchNode(config);
  judge_anew(switch_host(index));
  host.alive = true;
  host.wake = kNever;
}

void World::restart_server(std::uint64_t boot_id, std::uint32_t index) {
  Host& host = hosts_[server_host(index)];
  faults_.add(Fault::kServerReturn);
  lost_servers_[index] = true;
  past_servers_ += std::get<Server>(host.node).counters();
  ServerConfig config = server_config(plan_, index);
  config.boot_id = boot_id;
  config.secret[1] = boot_id;
  host.node = Server(config);
  judge_anew(server_host(index));
  host.alive = true;
  host.wake = kNever;
}

void World::restart_worker(HostId id) {
  faults_.add(Fault::kWorkerReturn);
  for (HostId other = 0; other < hosts_.size(); ++other) {
    if (!same_process(id, other)) continue;
    const Application& before = std::get<Member>(hosts_[other].node).application;
    WorkerConfig config = worker_config(plan_, before.job(), before.rank());
    config.nonce += faults_[Fault::kWorkerReturn] << 40;
    hosts_[other].node = Member{Worker(config), Application(plan_, before.job(), before.rank())};
    hosts_[other].alive = true;
    judge_anew(other);
    wake_at(other, now());
  }
}

void World::pause(HostId host, Duration length) {
  // Ranks give up a server after a lease of silence, which may have begun earlier.
  const bool is_server = std::holds_alternative<Server>(hosts_[host].node);
  if (is_server && length > plan_.timing.lease / 4) lost_servers_[host] = true;
  hosts_[host].paused_until = std::max(hosts_[host].paused_until, now() + length);
  faults_.add(Fault::kPause);
}

void World::clog(HostId from, HostId to, Duration length) { path(from, to).clog(now() + length); }

void World::cut(HostId from, HostId to, Duration length) { path(from, to).cut(now() + length); }

void World::change_address(HostId id) {
  if (!std::holds_alternative<Member>(hosts_[id].node)) return;
  Endpoint& endpoint = hosts_[id].endpoint;
  ++endpoint.port;
  host_ids_.insert(endpoint, id);
  faults_.add(Fault::kAddressChange);
}

void World::at(Instant when, std::function<void()> action) {
  network_.again(std::max(picoseconds(when), now_),
                 {Network::EventKind::kAction, static_cast<std::uint32_t>(actions_.size())});
  actions_.push_back(std::move(action));
}

}  // namespace atp::sim
