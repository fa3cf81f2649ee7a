#include "explore/world.h"

#include <algorithm>

#include "atp/base/check.h"
#include "atp/sim/display.h"

namespace atp::explore {
namespace {

constexpr Instant kBegin{std::chrono::seconds(1)};

bool is_gradient(const Packet& packet) { return packet.bytes[ATP_AT_TYPE] == ATP_GRADIENT; }

bool wakes_host(const Move& move) {
  return move.kind == MoveKind::kDeliver || move.kind == MoveKind::kFire ||
         move.kind == MoveKind::kUnreachable;
}

}  // namespace

World::World(const Plan& plan, const Bug* bug) : plan_(plan), cluster_(plan, bug) { join_all(); }

// Lets all join in a fixed order, since joining is not explored here. The first gradients wait.
void World::join_all() {
  State& state = first_;
  state.now = cluster_.time_id(kBegin);
  for (HostId host = 0; host < cluster_.host_count(); ++host) {
    state.nodes[host] = cluster_.fresh(host);
  }
  for (HostId host = 0; host < cluster_.worker_count(); ++host) {
    put(state, host, cluster_.start(host, state.now));
  }
  const auto next = [&] {
    return std::find_if(state.packets.begin(), state.packets.end(),
                        [&](PacketPool::Id id) { return !is_gradient(cluster_.packets()[id]); });
  };
  for (auto at = next(); at != state.packets.end(); at = next()) {
    const std::string& objection = make({MoveKind::kDeliver, *at}, state);
    ATP_CHECK(objection.empty());
  }
  ATP_CHECK(!state.packets.empty());
  state.left = plan_.budgets;
}

void World::moves(const State& state, std::vector<Move>& moves, bool calm) const {
  moves.clear();
  add_packet_moves(state, moves, calm);
  for (HostId host = 0; host < cluster_.host_count(); ++host) {
    if (may_fire(state, host, calm)) moves.push_back({MoveKind::kFire, host});
    if (calm) continue;
    if (cluster_.is_switch(host) && state.left.restarts > 0 &&
        state.nodes[host] != cluster_.restarted(host)) {
      moves.push_back({MoveKind::kRestart, host});
    }
    if (cluster_.is_worker(host) && state.left.unreachable > 0) {
      moves.push_back({MoveKind::kUnreachable, host});
    }
  }
}

void World::add_packet_moves(const State& state, std::vector<Move>& moves, bool calm) const {
  const auto& packets = state.packets;
  for (std::size_t i = 0; i < packets.size(); ++i) {
    if (i > 0 && packets[i] == packets[i - 1]) continue;
    moves.push_back({MoveKind::kDeliver, packets[i]});
    if (calm) continue;
    if (state.left.losses > 0) moves.push_back({MoveKind::kLose, packets[i]});
    if (state.left.duplicates > 0) moves.push_back({MoveKind::kDouble, packets[i]});
  }
}

bool World::may_fire(const State& state, HostId host, bool calm) const {
  const Instant due = cluster_.facts(host, state.nodes[host]).due;
  if (due <= cluster_.time(state.now)) return true;
  if (calm || due == kNever) return false;
  const bool is_early = !state.packets.empty();
  const bool is_before_others = due > next_timer(state).due;
  // When all is done and silent, timers can show nothing more.
  if (!is_early && done(state)) return false;
  return (!is_early || state.left.early_timers > 0) &&
         (!is_before_others || state.left.late_nodes > 0);
}

// A timer that fires before it is due moves the clock.
Cluster::TimeId World::time_of(const Move& move, const State& state) {
  if (move.kind != MoveKind::kFire) return state.now;
  const auto host = static_cast<HostId>(move.subject);
  const Instant due = cluster_.facts(host, state.nodes[host]).due;
  return due <= cluster_.time(state.now) ? state.now : cluster_.time_id(due);
}

const Outcome& World::outcome_of(const Move& move, const State& state, Cluster::TimeId now) {
  if (move.kind == MoveKind::kDeliver) {
    const HostId host = cluster_.packets()[move.subject].to;
    return cluster_.deliver(move.subject, state.nodes[host], now);
  }
  const auto host = static_cast<HostId>(move.subject);
  if (move.kind == MoveKind::kFire) return cluster_.wake(host, state.nodes[host], now);
  return cluster_.tell_unreachable(host, state.nodes[host], now);
}

const std::string& World::make(const Move& move, State& state) {
  HostId host = static_cast<HostId>(move.subject);
  switch (move.kind) {
    case MoveKind::kLose:
      --state.left.losses;
      take(state, move.subject);
      return none_;
    case MoveKind::kDouble: {
      --state.left.duplicates;
      auto& packets = state.packets;
      packets.insert(std::lower_bound(packets.begin(), packets.end(), move.subject), move.subject);
      return none_;
    }
    case MoveKind::kRestart:
      --state.left.restarts;
      state.nodes[host] = cluster_.restarted(host);
      return none_;
    case MoveKind::kUnreachable: --state.left.unreachable; break;
    case MoveKind::kDeliver: host = cluster_.packets()[move.subject].to; break;
    case MoveKind::kFire: break;
  }
  const Cluster::TimeId now = time_of(move, state);
  const Outcome& outcome = outcome_of(move, state, now);
  if (now != state.now) {
    if (!state.packets.empty()) --state.left.early_timers;
    if (cluster_.time(now) > next_timer(state).due) --state.left.late_nodes;
    state.now = now;
  }
  if (move.kind == MoveKind::kDeliver) take(state, move.subject);
  put(state, host, outcome);
  return cluster_.objection(outcome);
}

void World::take(State& state, PacketPool::Id packet) const {
  auto& packets = state.packets;
  packets.erase(std::lower_bound(packets.begin(), packets.end(), packet));
}

void World::put(State& state, HostId host, const Outcome& outcome) const {
  state.nodes[host] = outcome.node;
  auto& packets = state.packets;
  for (const PacketPool::Id id : cluster_.sent(outcome)) {
    packets.insert(std::upper_bound(packets.begin(), packets.end(), id), id);
  }
}

const char* World::objection(const State& state) const {
  if (!done(state)) {
    const bool waits = state.packets.empty() && state.left == plan_.budgets;
    return waits && !plan_.may_wait ? "all wait, although nothing has gone wrong" : nullptr;
  }
  for (HostId host = 1; host < cluster_.worker_count(); ++host) {
    if (cluster_.job_of(host) != cluster_.job_of(host - 1)) continue;
    const HostId other = host - 1;
    if (cluster_.facts(host, state.nodes[host]).map !=
        cluster_.facts(other, state.nodes[other]).map) {
      return "workers disagree about the next indices";
    }
  }
  return nullptr;
}

bool World::done(const State& state) const {
  for (HostId host = 0; host < cluster_.worker_count(); ++host) {
    if (!cluster_.facts(host, state.nodes[host]).finished) return false;
  }
  return true;
}

bool World::clean(const State& state) const {
  for (HostId host = 0; host < cluster_.host_count(); ++host) {
    const Facts& facts = cluster_.facts(host, state.nodes[host]);
    if (!facts.clean || facts.ranks != cluster_.ranks_of(host)) return false;
  }
  return true;
}

World::Next World::next_timer(const State& state) const {
  Next next;
  for (HostId host = 0; host < cluster_.host_count(); ++host) {
    const Instant due = cluster_.facts(host, state.nodes[host]).due;
    if (due < next.due) next = {host, due};
  }
  return next;
}

std::vector<Packet> World::sent(const Move& move, const State& state) {
  std::vector<Packet> sent;
  if (!wakes_host(move)) return sent;
  for (const PacketPool::Id id : cluster_.sent(outcome_of(move, state, time_of(move, state)))) {
    sent.push_back(cluster_.packets()[id]);
  }
  return sent;
}

std::string World::story(const Move& move, const State& state) {
  const auto packet_text = [&](PacketPool::Id id) {
    const Packet& packet = cluster_.packets()[id];
    return cluster_.name(packet.from) + " > " + cluster_.name(packet.to) + ": " +
           sim::display(packet.bytes);
  };
  const auto host = static_cast<HostId>(move.subject);
  const Cluster::TimeId now = time_of(move, state);
  std::string text = sim::display(cluster_.time(now)) + "  ";
  switch (move.kind) {
    case MoveKind::kLose: return text + "LOST     " + packet_text(move.subject);
    case MoveKind::kDouble: return text + "TWICE    " + packet_text(move.subject);
    case MoveKind::kRestart: return text + "RESTART  " + cluster_.name(host);
    case MoveKind::kDeliver: text += "got      " + packet_text(move.subject); break;
    case MoveKind::kFire: text += "timer    " + cluster_.name(host); break;
    case MoveKind::kUnreachable:
      text += "ICMP     " + cluster_.name(host) + ": its switch is not there";
      break;
  }
  const Outcome& outcome = outcome_of(move, state, now);
  for (const PacketPool::Id id : cluster_.sent(outcome)) {
    text += "\n                             sends " + packet_text(id);
  }
  const std::string& objection = cluster_.objection(outcome);
  return objection.empty() ? text : text + "\n                             WRONG: " + objection;
}

}  // namespace atp::explore
