#include "tests/virtual_network/world.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "atp/base/check.h"
#include "tests/virtual_network/allocation_guard.h"
#include "tests/virtual_network/display.h"

namespace atp::virtual_network {
namespace {

constexpr std::size_t kOutboxPackets = 2048;
constexpr std::size_t kOutboxBytes = std::size_t{1} << 20;
// A node that wants to be woken again and again without letting time pass is broken.
constexpr std::uint64_t kMostWakesAtOneInstant = 100000;

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

template <class Enum>
void add_to(Counters<Enum>& sum, const Counters<Enum>& more) {
  for (std::size_t i = 0; i < Counters<Enum>::kSize; ++i) {
    const auto counter = static_cast<Enum>(i);
    sum.add(counter, more[counter]);
  }
}

std::uint64_t mixed(std::uint64_t digest, std::uint64_t word) {
  digest = (digest ^ word) * 0x9e3779b97f4a7c15;
  return digest ^ (digest >> 29);
}

std::uint64_t digest_of(std::span<const std::uint8_t> bytes) {
  std::uint64_t digest = bytes.size();
  for (const std::uint8_t byte : bytes) digest = mixed(digest, byte);
  return digest;
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
  make_links();
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

void World::make_links() {
  links_.reserve(hosts_.size() * hosts_.size());
  for (std::size_t i = 0; i < hosts_.size() * hosts_.size(); ++i) {
    PathFaults faults;
    if (!plan_.path_faults.empty()) {
      faults = plan_.path_faults[random_.below(plan_.path_faults.size())];
    }
    links_.emplace_back(plan_.delay, faults);
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
  for (Link& link : links_) link.heal();
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
  links_[from * hosts_.size() + to].clog(now_ + length);
}

void World::at(Instant when, std::function<void()> action) {
  queue_.push(when, {Event::Kind::kAction, static_cast<std::uint32_t>(actions_.size()), 0});
  actions_.push_back(std::move(action));
}

void World::inject(const Endpoint& from, const Endpoint& to, std::span<const std::uint8_t> bytes,
                   Duration delay) {
  put_in_flight(from, to, bytes, now_ + delay);
}

// --- the clock

bool World::run(Duration limit, const std::function<bool()>& done) {
  const Instant end = now_ + limit;
  while (!done()) {
    const Instant next = std::min(queue_.next(), wake_of(hosts_[earliest_host()]));
    if (next > end || violations_.size() > 10) {
      now_ = std::max(now_, end);
      return false;
    }
    step();
  }
  return true;
}

void World::run_for(Duration time) {
  run(time, [] { return false; });
}

bool World::run_to_completion() {
  const Duration limit = plan_.heal + plan_.bound - now_.time_since_epoch();
  return run(limit, [this] { return all(&Application::finished); });
}

World::HostId World::earliest_host() const {
  HostId earliest = 0;
  Instant when = kNever;
  for (HostId host = 0; host < hosts_.size(); ++host) {
    if (!hosts_[host].alive) continue;
    const Instant wake = wake_of(hosts_[host]);
    if (wake < when) {
      when = wake;
      earliest = host;
    }
  }
  return earliest;
}

void World::step() {
  const HostId host = earliest_host();
  const Instant wake_at = hosts_[host].alive ? wake_of(hosts_[host]) : kNever;
  const bool is_event = queue_.next() <= wake_at;
  const Instant next = is_event ? queue_.next() : std::max(wake_at, now_);
  if (next > now_) wakes_at_this_instant_ = 0;
  now_ = next;
  if (is_event) {
    handle(queue_.pop());
  } else if (++wakes_at_this_instant_ > kMostWakesAtOneInstant) {
    violations_.push_back(name_of(hosts_[host].endpoint) + " is woken without end at one instant");
    hosts_[host].alive = false;
  } else {
    wake(host);
  }
}

void World::handle(const Event& event) {
  switch (event.kind) {
    case Event::Kind::kDeliver: deliver(event); break;
    case Event::Kind::kAction: actions_[event.index](); break;
    case Event::Kind::kUnreachable: {
      Host& host = hosts_[event.host];
      const Endpoint whom = packets_[event.index].to;
      free_packets_.push_back(event.index);
      if (!host.alive) break;
      {
        AllocationGuard guard;
        if (auto* member = std::get_if<Member>(&host.node)) {
          member->worker.handle_unreachable(now_, whom, member->application, outbox_);
        } else if (auto* node = std::get_if<SwitchNode>(&host.node)) {
          node->handle_unreachable(now_, whom, outbox_);
        } else {
          std::get<Server>(host.node).handle_unreachable(now_, whom, outbox_);
        }
      }
      settle(event.host);
      break;
    }
  }
}

void World::deliver(const Event& event) {
  Packet& packet = packets_[event.index];
  const std::optional<HostId> id = host_at(packet.to);
  if (id && hosts_[*id].alive && hosts_[*id].paused_until > now_) {
    queue_.push(hosts_[*id].paused_until, event);
    return;
  }
  if (!id || !hosts_[*id].alive) {
    if (id) dead(packet, *id);
    free_packets_.push_back(event.index);
    return;
  }
  Host& host = hosts_[*id];
  trace("got", packet.from, packet.to, packet.bytes);
  {
    AllocationGuard guard;
    if (auto* member = std::get_if<Member>(&host.node)) {
      member->worker.handle_packet(now_, packet.from, packet.bytes, member->application, outbox_);
    } else if (auto* node = std::get_if<SwitchNode>(&host.node)) {
      node->handle_packet(now_, packet.from, packet.bytes, outbox_);
    } else {
      std::get<Server>(host.node).handle_packet(now_, packet.from, packet.bytes, outbox_);
    }
  }
  free_packets_.push_back(event.index);
  settle(*id);
}

void World::dead(const Packet& packet, HostId host) {
  if (std::holds_alternative<SwitchNode>(hosts_[host].node)) faults_.add(Fault::kDeadSwitchPacket);
  const std::optional<HostId> sender = host_at(packet.from);
  if (!sender || plan_.report_unreachable <= 0 || !random_.chance(plan_.report_unreachable)) return;
  faults_.add(Fault::kUnreachable);
  const Endpoint to = packet.to;
  std::uint32_t index = static_cast<std::uint32_t>(packets_.size());
  packets_.push_back({to, to, {}});
  queue_.push(now_ + plan_.delay.base, {Event::Kind::kUnreachable, index, *sender});
}

void World::wake(HostId id) {
  Host& host = hosts_[id];
  {
    AllocationGuard guard;
    if (auto* member = std::get_if<Member>(&host.node)) {
      if (member->worker.next_timeout() <= now_) {
        member->worker.handle_timeout(now_, member->application, outbox_);
      }
      if (member->application.next_action() <= now_) {
        member->application.step(now_, member->worker);
      }
    } else if (auto* node = std::get_if<SwitchNode>(&host.node)) {
      node->handle_timeout(now_, outbox_);
    } else {
      std::get<Server>(host.node).handle_timeout(now_, outbox_);
    }
  }
  settle(id);
}

void World::settle(HostId id) {
  Host& host = hosts_[id];
  send_outbox(id);
  if (auto* member = std::get_if<Member>(&host.node)) {
    settle_worker(id, *member);
  } else if (auto* node = std::get_if<SwitchNode>(&host.node)) {
    host.wake = node->next_timeout();
  } else {
    host.wake = std::get<Server>(host.node).next_timeout();
  }
}

void World::settle_worker(HostId id, Member& member) {
  for (;;) {
    {
      AllocationGuard guard;
      member.worker.poll_transmit(now_, member.application, outbox_);
    }
    if (outbox_.empty()) break;
    send_outbox(id);
  }
  while (const std::optional<atp::Event> event = member.worker.poll_event()) {
    if (trace_) {
      std::printf("%s %s event %d operation %llu\n", display(now_).c_str(),
                  name_of(hosts_[id].endpoint).c_str(), static_cast<int>(event->kind),
                  static_cast<unsigned long long>(event->operation));
    }
    member.application.handle_event(now_, *event, member.worker, oracle_);
  }
  hosts_[id].wake = std::min(member.worker.next_timeout(), member.application.next_action());
}

// --- packets

void World::send_outbox(HostId host) {
  for (const OutPacket& packet : outbox_.packets()) send(host, packet.to, outbox_.bytes_of(packet));
  outbox_.clear();
}

void World::send(HostId host, const Endpoint& to, std::span<const std::uint8_t> bytes) {
  const Endpoint from = hosts_[host].endpoint;
  ++packets_sent_;
  trace_digest_ = mixed(mixed(trace_digest_, now_.time_since_epoch().count()), digest_of(bytes));
  const std::optional<HostId> peer = host_at(to);
  if (!peer) return;
  Verdict verdict;
  if (tap_) verdict = tap_(Packet{from, to, {bytes.begin(), bytes.end()}});
  Fate fate;
  if (!verdict.drop) fate = links_[host * hosts_.size() + *peer].send(now_, random_, faults_);
  trace(fate.copies == 0 ? "LOST" : fate.copies == 1 ? "sent" : "TWICE", from, to, bytes);
  for (std::size_t i = 0; i < fate.copies; ++i) {
    put_in_flight(from, to, bytes, fate.arrivals[i] + verdict.delay);
  }
  for (std::uint32_t i = 0; i < verdict.extra_copies; ++i) {
    put_in_flight(from, to, bytes, now_ + plan_.delay.base);
  }
}

void World::put_in_flight(const Endpoint& from, const Endpoint& to,
                          std::span<const std::uint8_t> bytes, Instant arrival) {
  if (free_packets_.empty()) {
    free_packets_.push_back(static_cast<std::uint32_t>(packets_.size()));
    packets_.emplace_back();
  }
  const std::uint32_t index = free_packets_.back();
  free_packets_.pop_back();
  packets_[index].from = from;
  packets_[index].to = to;
  packets_[index].bytes.assign(bytes.begin(), bytes.end());
  queue_.push(arrival, {Event::Kind::kDeliver, index, 0});
}

std::optional<World::HostId> World::host_at(const Endpoint& endpoint) const {
  for (HostId host = 0; host < hosts_.size(); ++host) {
    if (hosts_[host].endpoint == endpoint) return host;
  }
  return std::nullopt;
}

void World::trace(const char* what, const Endpoint& from, const Endpoint& to,
                  std::span<const std::uint8_t> bytes) {
  if (!trace_) return;
  std::printf("%s %-5s %s > %s %s\n", display(now_).c_str(), what, name_of(from).c_str(),
              name_of(to).c_str(), display(bytes).c_str());
}

std::string World::name_of(const Endpoint& endpoint) const {
  if (endpoint == server_endpoint()) return "server";
  for (std::uint32_t i = 0; i < plan_.switches; ++i) {
    if (endpoint == switch_endpoint(i)) return "switch" + std::to_string(i);
  }
  for (std::uint32_t job = 0; job < plan_.jobs.size(); ++job) {
    for (Rank rank = 0; rank < plan_.jobs[job].world_size; ++rank) {
      if (endpoint == worker_endpoint(job, rank)) {
        return "worker" + std::to_string(job) + "." + std::to_string(rank);
      }
    }
  }
  return to_string(endpoint);
}

// --- judgement

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

}  // namespace atp::virtual_network
