// The clock, the driving loop of atp/core/README.md and the wire.
#include "atp/sim/world.h"

#include <algorithm>
#include <cstdio>

#include "atp/sim/allocation_guard.h"
#include "atp/sim/display.h"

namespace atp::sim {
namespace {

// A node that wants to be woken again and again without letting time pass is broken.
constexpr std::uint64_t kMostWakesAtOneInstant = 100000;

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
  if (!verdict.drop) fate = paths_[host * hosts_.size() + *peer].send(now_, random_, faults_);
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

}  // namespace atp::sim
