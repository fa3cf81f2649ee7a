// The clock and the driving loop of atp/core/README.md.
#include "atp/sim/world.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "atp/sim/display.h"
#include "atp/sim/probes.h"

namespace atp::sim {
namespace {

// A node that asks to be woken again and again without time passing is broken.
constexpr std::uint64_t kMaxWakesAtOneInstant = 100000;
constexpr std::size_t kMaxViolations = 10;

// In the order of Host::node.
constexpr std::array kPartOfNode{Part::kServer, Part::kSwitch, Part::kWorker};

}  // namespace

// --- the clock

bool World::run(Duration limit, const std::function<bool()>& done) {
  return run_until(now() + limit, done, false);
}

void World::run_for(Duration time) {
  run(time, [] { return false; });
}

bool World::run_to_completion() {
  const auto all_settled = [this] {
    return std::all_of(hosts_.begin(), hosts_.end(), [this](const Host& h) { return settled(h); });
  };
  return run_until(Instant{plan_.heal + plan_.bound}, all_settled, true);
}

bool World::run_until(Instant limit, const std::function<bool()>& done, bool after_news_only) {
  const Picoseconds end = picoseconds(limit);
  news_ = true;
  for (;;) {
    if (news_ || !after_news_only) {
      news_ = false;
      if (done()) return true;
    }
    if (violations_.size() > kMaxViolations) break;
    const std::optional<Network::Event> event = take_next(end);
    if (!event) break;
    now_ = network_.now();
    handle(*event);
  }
  now_ = std::max(now_, end);
  return false;
}

std::optional<Network::Event> World::take_next(Picoseconds end) {
  const Within part(Part::kNetwork);
  return network_.take_next(end);
}

void World::wake_at(HostId host, Instant when) {
  hosts_[host].wake = when;
  arm(host);
}

// A timer that moves to a later time stays in the queue; when it fires too early, it is armed
// again.
void World::arm(HostId id) {
  Host& host = hosts_[id];
  const Picoseconds when = std::max(picoseconds(due(host)), now_);
  if (when >= host.armed || when == kNeverPs) return;
  host.armed = when;
  network_.again(when, {Network::EventKind::kTimer, id});
}

void World::handle(const Network::Event& event) {
  switch (event.kind) {
    case Network::EventKind::kFlight: deliver(event.index); break;
    case Network::EventKind::kTimer: handle_timer(event.index); break;
    case Network::EventKind::kAction: {
      news_ = true;
      actions_[event.index]();
      break;
    }
    case Network::EventKind::kUnreachable: deliver_unreachable(event.index); break;
    case Network::EventKind::kLink: break;  // the network's own
  }
}

void World::handle_timer(HostId id) {
  Host& host = hosts_[id];
  if (now_ != host.armed) return;  // replaced by an earlier one
  host.armed = kNeverPs;
  if (!host.alive) return;
  if (picoseconds(due(host)) > now_) return arm(id);
  if (now_ != last_wake_) wakes_at_this_instant_ = 0;
  last_wake_ = now_;
  if (++wakes_at_this_instant_ > kMaxWakesAtOneInstant) {
    violations_.push_back(name_of(host.endpoint) + " is woken without end at one instant");
    host.alive = false;
    return;
  }
  wake(id);
}

// --- the driving loop

void World::wake(HostId id) {
  Host& host = hosts_[id];
  begin_turn(id, {}, {});
  {
    const AllocationGuard guard;
    const Within part(kPartOfNode[host.node.index()]);
    if (auto* member = std::get_if<Member>(&host.node)) {
      if (member->worker.next_timeout() <= now()) {
        member->worker.handle_timeout(now(), member->application, outbox_);
      }
      if (member->application.next_action() <= now()) {
        const Within application(Part::kApplication);
        member->application.step(now(), member->worker);
      }
    } else if (auto* node = std::get_if<SwitchNode>(&host.node)) {
      node->handle_timeout(now(), outbox_);
    } else {
      std::get<Server>(host.node).handle_timeout(now(), outbox_);
    }
  }
  end_turn(id, {}, {});
  settle(id);
}

void World::deliver(std::uint32_t index) {
  const Network::Flight& flight = network_.flight(index);
  const HostId id = flight.receiver;
  Host& host = hosts_[id];
  if (host.alive && host.paused_until > now()) {
    network_.again(picoseconds(host.paused_until), {Network::EventKind::kFlight, index});
    return;
  }
  if (!host.alive) return dead(index, id);
  if (flight.to != host.endpoint) return network_.end_flight(index);  // it has moved
  std::span<const std::uint8_t> bytes = network_.bytes_of(flight);
  if (flight.marked) bytes = marked(bytes);
  if (trace_) trace("got", flight.from, flight.to, bytes);
  const Endpoint from = flight.from;
  begin_turn(id, from, bytes);
  hand_over(id, from, bytes);
  end_turn(id, from, bytes);
  network_.end_flight(index);
  settle(id);
}

void World::hand_over(HostId id, const Endpoint& from, std::span<const std::uint8_t> bytes) {
  Host& host = hosts_[id];
  const AllocationGuard guard;
  const Within part(kPartOfNode[host.node.index()]);
  if (auto* member = std::get_if<Member>(&host.node)) {
    member->worker.handle_packet(now(), from, bytes, member->application, outbox_);
  } else if (auto* node = std::get_if<SwitchNode>(&host.node)) {
    node->handle_packet(now(), from, host.endpoint, bytes, outbox_);
  } else {
    std::get<Server>(host.node).handle_packet(now(), from, host.endpoint, bytes, outbox_);
  }
}

void World::deliver_unreachable(std::uint32_t index) {
  const Network::Flight flight = network_.flight(index);
  network_.end_flight(index);
  Host& host = hosts_[flight.sender];
  if (!host.alive) return;
  begin_turn(flight.sender, {}, {});
  {
    const AllocationGuard guard;
    const Within part(kPartOfNode[host.node.index()]);
    if (auto* member = std::get_if<Member>(&host.node)) {
      member->worker.handle_unreachable(now(), flight.to, member->application, outbox_);
    } else if (auto* node = std::get_if<SwitchNode>(&host.node)) {
      node->handle_unreachable(now(), flight.to, outbox_);
    } else {
      std::get<Server>(host.node).handle_unreachable(now(), flight.to, outbox_);
    }
  }
  end_turn(flight.sender, flight.to, {});
  settle(flight.sender);
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
  arm(id);
}

void World::settle_worker(HostId id, Member& member) {
  for (;;) {
    {
      const AllocationGuard guard;
      const Within part(Part::kWorker);
      member.worker.poll_transmit(now(), member.application, outbox_);
    }
    end_turn(id, {}, {});
    if (outbox_.empty()) break;
    send_outbox(id);
  }
  while (const std::optional<OperationId> asked = member.worker.asked_about()) {
    member.worker.describe(*asked, "operation " + std::to_string(*asked));
  }
  while (const std::optional<Event> event = member.worker.poll_event()) {
    if (trace_) {
      std::printf("%s %s event %d operation %llu\n", display(now()).c_str(),
                  name_of(hosts_[id].endpoint).c_str(), static_cast<int>(event->kind),
                  static_cast<unsigned long long>(event->operation));
    }
    const Within part(Part::kApplication);
    member.application.handle_event(now(), *event, member.worker, oracle_);
    news_ = true;
  }
  hosts_[id].wake = std::min(member.worker.next_timeout(), member.application.next_action());
}

}  // namespace atp::sim
