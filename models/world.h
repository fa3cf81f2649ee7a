#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "models/cluster.h"

// The states of a world and the moves between them.
//
// Time stands still while packets are delivered, lost and doubled, in any order. It moves when a
// timer fires: the next one if nothing is on its way. By budgets it may fire while packets are, and
// another host's may fire instead: what was due before is then overdue, as on a machine that is
// late, and fires by a move of its own, or with the host's next packet.

namespace atp::models {

struct State {
  Cluster::TimeId now = 0;
  std::array<NodeStore::Id, kMaxHosts> nodes{};
  Budgets left;
  std::vector<PacketPool::Id> packets;  // on their way, sorted

  bool operator==(const State&) const = default;
};

enum class MoveKind : std::uint8_t { kDeliver, kLose, kDouble, kFire, kRestart, kUnreachable };

// `subject`: a packet's number, or a host's.
struct Move {
  MoveKind kind = MoveKind::kDeliver;
  std::uint16_t subject = 0;
};

class World {
 public:
  explicit World(const Plan& plan, const Bug* bug = nullptr);

  // All have joined, and their first packets are on their way.
  const State& first() const { return first_; }

  // All that can happen next, and how. With `calm` nothing goes wrong from here on, and time stands
  // still: packets are delivered, and what is due fires.
  void moves(const State& state, std::vector<Move>& moves, bool calm = false) const;
  // Makes the move. Returns what was wrong about it: empty if nothing was.
  const std::string& make(const Move& move, State& state);
  // What the state itself shows to be wrong.
  const char* objection(const State& state) const;

  // All operations are complete at every worker.
  bool done(const State& state) const;
  // Nothing is held that should be free, nobody is detached, every switch knows its ranks.
  bool clean(const State& state) const;
  // The host whose timer is the next one; kNever if there is none.
  struct Next {
    HostId host = 0;
    Instant due = kNever;
  };
  Next next_timer(const State& state) const;

  // What the host that the move wakes sends, if it wakes one.
  std::vector<Packet> sent(const Move& move, const State& state);
  // A line that says what the move does in this state, and what comes of it.
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

}  // namespace atp::models
