#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "atp/core/dataplane/sweep.h"
#include "atp/core/dataplane/switch_state.h"

// The switch of a tree (docs/inside/protocol §4): it adds up the gradients of its children, passes
// the sums to its parent, and forwards downward messages to the addressed children. All its state
// is soft: it may vanish, return or lose its memory at any moment without causing a wrong sum.
//
// The node itself only dispatches packets by type. pipeline.h decides, upward.h carries sums up,
// downward.h forwards messages down, join_relay.h learns the trees, answers.h refuses, sweep.h
// frees; all work on one SwitchState. No packet makes it allocate, except a JOIN with a new rank or
// tree.

namespace atp {

class SwitchNode {
 public:
  explicit SwitchNode(const SwitchConfig& config);

  // `to`: the address of this node at which the packet has arrived.
  void handle_packet(Instant now, const Endpoint& from, const Endpoint& to,
                     std::span<const std::uint8_t> bytes, Outbox& out);
  // An ICMP error about a packet to `whom`. A switch has no other place to send to, and its
  // children detach from it if need be, so it only counts the error.
  void handle_unreachable(Instant now, const Endpoint& whom, Outbox& out);
  // A packet whose tag the driver does not accept (docs/inside/protocol §2, *Keys*), without its
  // tag.
  void refuse_key(Instant now, const Endpoint& from, std::span<const std::uint8_t> bytes,
                  KeyProblem problem, Outbox& out);
  void handle_timeout(Instant now, Outbox& out);
  Instant next_timeout() const { return sweep_.next(); }

  // While set, every GRADIENT sent up carries ECN, because this switch's receive queue is long.
  void set_congested(bool congested) { state_.congested = congested; }

  // From this call on, JOINs of unknown jobs are refused (docs/inside/protocol §2, *Draining*).
  void drain() { state_.draining = true; }
  bool draining() const { return state_.draining; }

  const Counters<SwitchCounter>& counters() const { return state_.counters; }
  // For metrics and displays.
  std::size_t aggregators_in_use() const { return state_.trees.shares().held(); }
  std::size_t trees() const { return state_.trees.size(); }
  bool knows_job(std::uint32_t job) const { return state_.trees.knows_job(job); }
  const SwitchConfig& config() const { return state_.config; }
  const Shares& shares() const { return state_.trees.shares(); }
  // Calls visit(const Tree&, const atp_share&) for each tree, in the order of job and stream.
  template <class Visit>
  void for_each_tree(Visit&& visit) const {
    for (const Tree& tree : state_.trees.trees()) {
      visit(tree, state_.trees.shares()[tree.share()]);
    }
  }

  bool operator==(const SwitchNode&) const = default;

 private:
  SwitchTurn begin_turn(Instant now, Outbox& out) {
    return {{now, state_.config, state_.counters, out}, state_};
  }

  SwitchState state_;
  Sweep sweep_;
};

}  // namespace atp
