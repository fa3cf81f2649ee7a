#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "explore/cluster.h"

// The states of a world and the moves between them.
//
// Time stands still while packets are delivered, lost and doubled, in any order. It advances when a
// timer fires: the next one, once nothing is in flight. Within the budgets a timer may also fire
// while packets are in flight, and another host's timer may fire first: an earlier one is then
// overdue, as on a slow machine, and fires by a move of its own or with the host's next packet.

namespace atp::explore {

struct State {
  Cluster::TimeId now = 0;
  std::array<NodeStore::Id, kMaxHosts> nodes{};
  Budgets left;
  std::vector<PacketPool::Id> packets;  // in flight, sorted

  bool operator==(const State&) const = default;
};

enum class MoveKind : std::uint8_t { kDeliver, kLose, kDouble, kFire, kRestart, kUnreachable };

// `subject`: the number of a packet or of a host.
struct Move {
  MoveKind kind = MoveKind::kDeliver;
  std::uint16_t subject = 0;
};

class World {
 public:
  explicit World(const Plan& plan, const Bug* bug = nullptr);

  // The state in which all have joined and their first packets are in flight.
  const State& first() const { return first_; }

  // All moves that are possible next. With `calm` there are no faults and time does not advance:
  // packets are delivered, and due timers fire.
  void moves(const State& state, std::vector<Move>& moves, bool calm = false) const;
  // Makes the move. Returns what was wrong with it, or an empty text.
  const std::string& make(const Move& move, State& state);
  // What is wrong with the state itself.
  const char* objection(const State& state) const;

  // Whether all operations are complete at every worker.
  bool done(const State& state) const;
  // Whether nothing is held that should be free, no rank is detached, and every switch has its
  // ranks.
  bool clean(const State& state) const;
  bool ends_clean() const { return plan_.ends_clean(); }
  // The host with the next timer; kNever if there is none.
  struct Next {
    HostId host = 0;
    Instant due = kNever;
  };
  Next next_timer(const State& state) const;

  // The packets of the host that the move wakes, if any.
  std::vector<Packet> sent(const Move& move, const State& state);
  // A line about the move in this state and its effects.
  std::string story(const Move& move, const State& state);
  Cluster& cluster() { return cluster_; }
  const Cluster& cluster() const { return cluster_; }

 private:
  void join_all();
  void put(State& state, HostId host, const Outcome& outcome) const;
  const Outcome& outcome_of(const Move& move, const State& state, Cluster::TimeId now);
  Cluster::TimeId time_of(const Move& move, const State& state);
  void take(State& state, PacketPool::Id packet) const;
  void add_packet_moves(const State& state, std::vector<Move>& moves, bool calm) const;
  bool may_fire(const State& state, HostId host, bool calm) const;

  Plan plan_;
  Cluster cluster_;
  State first_;
  std::string none_;
};

}  // namespace atp::explore
