// Decides whether the tree works: what shows that it does, when it is suspected, and when the
// worker detaches and returns (docs/inside/protocol §5, *Detaching*).
#include <utility>

#include "atp/core/worker/worker_membership.h"

namespace atp {
// The lease of the tree ends only while the straight path answers. If both are silent, the server
// may be dead, or this host's link; and when they return, the first answer says nothing about the
// other path.
Instant WorkerMembership::tree_lease_end(const WorkerConfig& config) const {
  if (!in_job() || !has_switch(config) || !attached() || straight_since_ == kNever) return kNever;
  const Duration refresh = config.timing.join_refresh;
  const Instant end = std::max((tree_heard_ == kNever ? started_ : tree_heard_) + lease(config),
                               straight_since_ + refresh);
  return end <= straight_heard_ + 3 * refresh ? end : kNever;
}

Instant WorkerMembership::suspicion_end(const WorkerConfig& config) const {
  if (suspected_ == kNever) return kNever;
  return std::min(convicted_, suspected_ + config.timing.join_refresh);
}

void WorkerMembership::hear_straight(const WorkerTurn& turn) {
  const Duration gap = 3 * turn.config.timing.join_refresh;
  if (straight_since_ == kNever || turn.now > straight_heard_ + gap) straight_since_ = turn.now;
  straight_heard_ = turn.now;
}

void WorkerMembership::hear_tree(Instant now) {
  tree_heard_ = now;
  straight_since_ = kNever;
  if (convicted_ != kNever) suspected_ = convicted_ = kNever;
}

MembershipChange WorkerMembership::handle_unreachable(WorkerTurn& turn, const Endpoint& whom) {
  if (whom == server(turn.config)) {
    server_unreachable_ = true;
  } else if (whom == parent(turn.config)) {
    // This host also reports such errors when it loses its own link, and then about every peer.
    if (parent_unreachable_ < suspected_) suspected_ = convicted_ = kNever;
    parent_unreachable_ = turn.now;
    if (!joined()) return detach(turn);
    suspect_tree(turn);
  }
  return {};
}

// Asks both paths. A rank may be late; or the server may be dead or stopped, or this host may have
// lost its link.
void WorkerMembership::suspect_tree(WorkerTurn& turn) {
  if (!attached() || suspected_ != kNever || !has_switch(turn.config)) return;
  suspected_ = turn.now;
  join_again(turn.now, turn.config.timing);
}

// The JOINs of the straight path are answered, and those through the tree are not.
void WorkerMembership::suspect_tree_without_answers(WorkerTurn& turn) {
  const bool is_one_sided =
      straight_join_.answered() && tree_join_.unanswered() >= Attachment::kUnansweredJoinsToDetach;
  if (joined() && is_one_sided) suspect_tree(turn);
}

// The straight path has answered. If it had been silent too, or was slow, the server may have
// returned from a pause, and the tree with it; so the tree gets a moment to answer as well, unless
// ICMP has reported the parent and the server answers at once.
MembershipChange WorkerMembership::judge_tree(WorkerTurn& turn) {
  if (suspected_ == kNever || convicted_ != kNever) return {};
  const Duration first = turn.config.timing.join_first;
  const bool is_reported = parent_unreachable_ >= suspected_;
  if (is_reported && turn.now <= suspected_ + first) return detach(turn);
  if (tree_heard_ != kNever && tree_heard_ >= suspected_) {
    suspected_ = kNever;
  } else {
    convicted_ = turn.now + 4 * first;
  }
  return {};
}

// --- detaching and returning

// If this host's link has just returned, the host looks for the Ethernet address of each neighbour
// anew, once a second: it may find the server long before the switch. A link that was down for a
// moment only has left no other trace than the tree's silence.
Instant WorkerMembership::tree_asked_from(const Timing& timing) const {
  const bool is_silent = convicted_ != kNever && tree_heard_ != kNever;
  const Instant lost = is_silent ? std::max(straight_returned_, tree_heard_) : straight_returned_;
  return lost + timing.join_refresh * 3 / 2 - RouteQuestions::kRounds * timing.join_first;
}

MembershipChange WorkerMembership::detach(WorkerTurn& turn, const Failure& refusal) {
  if (!in_job() || !has_switch(turn.config) || !attached()) return {};
  attachment_.detach(turn.now, turn.config.timing);
  turn.count(WorkerCounter::kDetachments);
  refused_by_tree_ = refusal;
  questions_.begin(std::max(turn.now, tree_asked_from(turn.config.timing)), turn.config.timing);
  suspected_ = convicted_ = kNever;
  // An ICMP error has named the parent already.
  const bool is_known = parent_unreachable_ >= questions_.begun();
  detaching_told_at_ = is_known ? turn.now : questions_.end(turn.config.timing);
  join_again(turn.now, turn.config.timing);  // from now on, the one through the tree is a probe
  return {.new_path = true};
}

// Tells it only once it is known whom to name, and not if the worker has returned by then. If the
// server itself has no room, that is what the application will be told.
void WorkerMembership::tell_of_detaching(WorkerTurn& turn) {
  const WorkerConfig& config = turn.config;
  detaching_told_at_ = kNever;
  if (attached() || !in_job() || refused_) return;
  detaching_told_ = true;
  Event event{.kind = EventKind::kDetached, .answered_before = tree_heard_ != kNever};
  if (refused_by_tree_ != Failure{}) {
    event.failure = refused_by_tree_;
    event.endpoint = refused_by_tree_.endpoint;
  } else {
    const std::size_t reach =
        parent_unreachable_ >= questions_.begun() ? 0 : questions_.reach(questions_.begun());
    event.endpoint = reach < config.route.size() ? config.route[reach] : parent(config);
    event.failure = {.code = FailureCode::kServerLost,
                     .endpoint = event.endpoint,
                     .heard = static_cast<std::uint8_t>(reach)};
  }
  turn.events.push_news(event);
}

void WorkerMembership::attach(WorkerTurn& turn) {
  attachment_.attach();
  turn.count(WorkerCounter::kReturns);
  detaching_told_at_ = kNever;
  if (std::exchange(detaching_told_, false)) {
    turn.events.push_news({.kind = EventKind::kAttached, .endpoint = parent(turn.config)});
  }
  join_again(turn.now, turn.config.timing);
}

void WorkerMembership::join_again(Instant now, const Timing& timing) {
  tree_join_.restart(now, timing);
  straight_join_.restart(now, timing);
}

}  // namespace atp
