// Forwards each downward message, and what its type changes at this switch.
#include "atp/core/dataplane/downward.h"

#include <algorithm>

#include "atp/core/dataplane/answers.h"
#include "atp/core/dataplane/upward.h"

namespace atp {
namespace {

// Sends copies of one packet down.
class Copies {
 public:
  Copies(SwitchTurn& turn, const Arrival& in, std::uint8_t part = 0)
      : turn_(turn), in_(in), part_(part) {}

  // To each child with an addressed member behind it.
  void to_members(const Tree& tree) {
    for (const Child& child : tree.membership().children()) {
      if (child.ranks.intersects(in_.packet.ranks)) send(child.endpoint);
    }
  }
  // To each addressed applicant that should hear it, unless its child has a copy, or may get none.
  template <class Hears, class May>
  void to_applicants(const Tree& tree, Hears&& hears, May&& may) {
    const auto applicants = tree.applicants();
    for (std::size_t i = 0; i < applicants.size(); ++i) {
      const auto gets_one = [&](const Applicant& a) {
        return in_.packet.ranks.contains(a.rank) && hears(a);
      };
      if (!gets_one(applicants[i])) continue;
      const Endpoint& child = applicants[i].statement.child;
      const bool has_one =
          tree.membership().behind(child).intersects(in_.packet.ranks) ||
          std::any_of(applicants.begin(), applicants.begin() + i, [&](const Applicant& a) {
            return a.statement.child == child && gets_one(a);
          });
      if (!has_one && may(child)) send(child);
    }
  }
  ~Copies() {
    if (!stored_) turn_.count(SwitchCounter::kDropNoChildAddressed);
  }

 private:
  void send(const Endpoint& child) {
    if (stored_) {
      turn_.out.send_to(child);
    } else {
      turn_.out.pass_on(child, in_.packet.bytes, part_);
    }
    stored_ = true;
    turn_.count(SwitchCounter::kMulticastCopies);
  }

  SwitchTurn& turn_;
  const Arrival& in_;
  std::uint8_t part_;
  bool stored_ = false;
};

void send_down(SwitchTurn& turn, const Arrival& in, const Tree& tree) {
  Copies(turn, in).to_members(tree);
}

// Applicants hear what answers their own JOINs and, while their job is joining, whom it waits for.
void send_answer_down(SwitchTurn& turn, const Arrival& in, const Tree& tree, std::uint64_t nonce,
                      const StatusMessage* status = nullptr) {
  Copies copies(turn, in);
  copies.to_members(tree);
  const auto hears = [&](const Applicant& applicant) {
    return nonce == 0 ? tree.joining() : applicant.statement.nonce == nonce;
  };
  copies.to_applicants(tree, hears, [&](const Endpoint& child) {
    // Each question has one answer, of its size.
    if (status == nullptr || nonce == 0 || status->code == StatusCode::kHere) return true;
    return may_answer(turn, child, in.packet.bytes.size(), in.packet.bytes.size(), *status,
                      relation_of(tree, child));
  });
}

// Releases the aggregator of a PARAMETER.
void release(SwitchTurn& turn, const Arrival& in, const atp_share& share) {
  const atp_header& header = in.packet.header;
  const auto [slot, home, has] = turn.state.find(share, header);
  const std::uint64_t now = nanoseconds(turn.now);
  const auto reclaim = static_cast<std::uint64_t>(turn.config.timing.reclaim.count());
  // User space can send more than one packet, so it emits the sum that is reclaimed (H29).
  atp_aggregator* holder_home = nullptr;
  if (atp_parameter_reclaims(&turn.state.aggregators[slot], has, &header, now, reclaim)) {
    holder_home = turn.state.home_of_held(slot);
    atp_fragment sum{};
    atp_write_sum(&turn.state.aggregators[slot], &sum, ATP_FLAG_RESEND);
    emit_released(turn, sum, slot);
  }
  atp_aggregator* const at_home = &turn.state.aggregators[home];
  const atp_verdict verdict = turn.state.decide(slot, [&](atp_aggregator& aggregator) {
    return atp_on_parameter(&aggregator, at_home, has, holder_home, &header, now, reclaim);
  });
  const SwitchCounter counter = switch_counter_of(static_cast<atp_reason>(verdict.reason));
  if (counter != SwitchCounter::kCount) turn.count(counter);
}

void handle_parameter(SwitchTurn& turn, const Arrival& in, Tree& tree) {
  const atp_header& header = in.packet.header;
  const atp_share& share = turn.state.trees.shares().region(tree.share());
  if (share.size > 0) release(turn, in, share);
  tree.note_parameter(header.stream, header.sequence);
  Copies(turn, in, turn.state.trees.shares().part_to_say(tree.share())).to_members(tree);
}

void handle_flush(SwitchTurn& turn, const Arrival& in, const Tree& tree) {
  const atp_share& share = turn.state.trees.shares().region(tree.share());
  if (share.size == 0) return send_down(turn, in, tree);
  const auto [slot, home, has] = turn.state.find(share, in.packet.header);
  atp_fragment fragment = fragment_of(in.packet);
  atp_aggregator* const at_home = &turn.state.aggregators[home];
  const atp_verdict verdict = turn.state.decide(slot, [&](atp_aggregator& aggregator) {
    return atp_on_flush(&aggregator, at_home, has, &fragment);
  });
  if (verdict.forward == ATP_FORWARD_CHILDREN) return send_down(turn, in, tree);
  turn.count(switch_counter_of(static_cast<atp_reason>(verdict.reason)));
  send_up(turn, tree.parent(), fragment, {static_cast<atp_data_op>(verdict.data), slot, {}});
}

void handle_join_ack(SwitchTurn& turn, const Arrival& in, Tree& tree) {
  const std::optional<JoinAck> ack = JoinAck::read(in.packet.body);
  if (!ack) return turn.count(SwitchCounter::kDropBadBody);
  tree.learn(*ack, in.packet.ranks);
  send_answer_down(turn, in, tree, ack->nonce);
}

void note_detached(Tree& tree, const StatusMessage& status) {
  std::size_t i = 0;
  status.about.for_each([&](Rank rank) { tree.detach(rank, status.numbers[i++]); });
}

// Unless it concerns an earlier socket.
void leave(Tree& tree, const StatusMessage& status) {
  status.about.for_each([&](Rank rank) {
    const Membership& membership = tree.membership();
    if (membership.knows(rank) && membership.member(rank).nonce == status.nonce) tree.leave(rank);
  });
}

// The parent wants to see its proof in the JOIN that this answers. Only its worker can repeat that,
// and finds in the switch's own *prove* what this switch wants to see.
void ask_below(SwitchTurn& turn, const Arrival& in, Tree& tree, const StatusMessage& status) {
  const Endpoint* child = tree.child_of(in.packet.ranks, status.nonce);
  if (child == nullptr) return turn.count(SwitchCounter::kDropNoChildAddressed);
  tree.note_proof(status.proof());
  ask_for_proof(turn, in.packet, in.packet.header.stream, *child, status.nonce);
}

void handle_status(SwitchTurn& turn, const Arrival& in, Tree& tree) {
  const std::optional<StatusMessage> status = StatusMessage::read(in.packet);
  if (!status) return turn.count(SwitchCounter::kDropBadBody);
  if (status->code == StatusCode::kProve) return ask_below(turn, in, tree, *status);
  // Forward it first: a rank that is forgotten below must still learn why.
  send_answer_down(turn, in, tree, status->nonce, &*status);
  switch (status->code) {
    case StatusCode::kWaitingFor: tree.note_waiting(turn.now, in.packet.header, *status); break;
    case StatusCode::kDetached: note_detached(tree, *status); break;
    case StatusCode::kLeft:  // its LEAVE may have gone straight to the server
      leave(tree, *status);
      [[fallthrough]];
    case StatusCode::kLeaseEnded:  // answers a JOIN if it has a nonce
    case StatusCode::kServerRestarted:
      status->about.for_each([&](Rank rank) { tree.forget_applicant(rank, status->nonce); });
      break;
    case StatusCode::kRefused:  // the JOIN that this switch noted was refused further up
    case StatusCode::kRankTaken:
      status->about.for_each([&](Rank rank) { tree.turn_down(rank, status->nonce); });
      break;
    // Leases here end by themselves; the other codes concern only the server and the workers.
    default: break;
  }
}

}  // namespace

void handle_downward(SwitchTurn& turn, const Arrival& in) {
  Tree* tree = turn.state.trees.find(in.packet.job(), in.packet.header.stream);
  if (tree == nullptr) return turn.count(SwitchCounter::kDropUnknownJob);
  if (in.from != tree->parent()) return turn.count(SwitchCounter::kDropNotFromParent);
  if (in.packet.header.bitmap_words != tree->bitmap_words()) {
    return turn.count(SwitchCounter::kDropWrongBitmapWidth);
  }
  tree->note_parent();
  switch (in.packet.type()) {
    case PacketType::kParameter: return handle_parameter(turn, in, *tree);
    case PacketType::kFlush: return handle_flush(turn, in, *tree);
    case PacketType::kJoinAck: return handle_join_ack(turn, in, *tree);
    case PacketType::kStatus: return handle_status(turn, in, *tree);
    default: return send_down(turn, in, *tree);  // NACK
  }
}

}  // namespace atp
