#include "atp/core/dataplane/answers.h"

#include "atp/core/topology/proof.h"

namespace atp {

bool may_answer(SwitchTurn& turn, const Endpoint& to, std::size_t cause_bytes,
                std::size_t answer_bytes, const StatusMessage& answer, AnswerPacer::To receiver) {
  const bool may =
      turn.state.pacer.allow(turn.now, to, cause_bytes, answer_bytes, answer, receiver);
  if (!may) turn.count(SwitchCounter::kStatusesWithheld);
  return may;
}

AnswerPacer::To relation_of(const Tree& tree, const Endpoint& sender) {
  return tree.membership().behind(sender).empty() ? AnswerPacer::To::kAnybody
                                                  : AnswerPacer::To::kChild;
}

namespace {

void send_now(SwitchTurn& turn, const Endpoint& to, const ControlHead& head, const RankSet& ranks,
              const StatusMessage& status) {
  if (!put_status(turn.out, head, ranks, status)) return;
  turn.out.send_to(to);
  turn.count(SwitchCounter::kStatusesSent);
}

// `cause_bytes`: the size of the packet that is answered.
void send(SwitchTurn& turn, const Endpoint& to, std::size_t cause_bytes, const ControlHead& head,
          const RankSet& ranks, const StatusMessage& status,
          AnswerPacer::To receiver = AnswerPacer::To::kAnybody) {
  const std::size_t bytes = atp_body_offset(head.bitmap_words) + status.bytes(head.bitmap_words);
  if (!may_answer(turn, to, cause_bytes, bytes, status, receiver)) return;
  send_now(turn, to, head, ranks, status);
}

ControlHead head_to(const PacketView& packet, std::uint16_t stream) {
  return {.bitmap_words = packet.header.bitmap_words, .job = packet.job(), .stream = stream};
}

// Turns down a JOIN. The sender may be a switch, which has noted the rank.
void turn_down(SwitchTurn& turn, const Arrival& in, const Join& join, const StatusMessage& status) {
  const Tree* tree = turn.state.trees.find(in.packet.job(), join.first_stream);
  send(turn, in.from, in.packet.bytes.size(), head_to(in.packet, join.first_stream),
       in.packet.ranks, status,
       tree == nullptr ? AnswerPacer::To::kAnybody : relation_of(*tree, in.from));
}

// The tree whose members or applicants behind the sender ask; null: a stranger asks.
Tree* tree_of_asker(SwitchTurn& turn, const Arrival& in) {
  Tree* tree = turn.state.trees.find(in.packet.job(), in.packet.header.stream);
  if (tree == nullptr || tree->bitmap_words() != in.packet.header.bitmap_words) return nullptr;
  const bool is_theirs = !in.packet.ranks.empty() && tree->is_behind(in.from, in.packet.ranks);
  return is_theirs ? tree : nullptr;
}

}  // namespace

void answer_unknown(SwitchTurn& turn, const Arrival& in, const RankSet& ranks) {
  StatusMessage status;
  status.code = StatusCode::kUnknownJob;
  status.about = ranks;
  send(turn, in.from, in.packet.bytes.size(), head_to(in.packet, in.packet.header.stream), ranks,
       status);
}

void answer_refused(SwitchTurn& turn, const Arrival& in, const Join& join, const Refusal& refusal) {
  turn_down(turn, in, join, StatusMessage::refused(refusal, in.packet.ranks, join.nonce));
}

void answer_rank_taken(SwitchTurn& turn, const Arrival& in, const Join& join,
                       const Endpoint& holder) {
  StatusMessage status;
  status.code = StatusCode::kRankTaken;
  status.nonce = join.nonce;
  status.about = in.packet.ranks;
  status.add_endpoint(holder);
  turn_down(turn, in, join, status);
}

void ask_for_proof(SwitchTurn& turn, const PacketView& packet, std::uint16_t stream,
                   const Endpoint& child, std::uint64_t nonce) {
  const std::uint64_t proof = proof_of(turn.config.secret, packet.job(), child);
  send_now(turn, child, head_to(packet, stream), packet.ranks,
           StatusMessage::prove(proof, packet.ranks, nonce));
}

bool answer_question(SwitchTurn& turn, const Arrival& in) {
  const auto here = StatusMessage::answer_to(in.packet);
  if (!here) return false;
  turn.count(SwitchCounter::kQuestions);
  const ControlHead head = head_to(in.packet, in.packet.header.stream);
  Tree* tree = tree_of_asker(turn, in);
  if (tree == nullptr) {
    send(turn, in.from, in.packet.bytes.size(), head, in.packet.ranks, *here);
  } else if (StatusMessage::is_for_a_node_above(in.packet)) {
    tree->note_question(turn.now);
    turn.out.pass_on(tree->parent(), in.packet.bytes);
  } else {
    // Ranks that lose their tree ask at the same time, and those behind a switch have one address.
    // So their answers do not count as those to strangers do.
    send_now(turn, in.from, head, in.packet.ranks, *here);
  }
  return true;
}

void answer_versions(SwitchTurn& turn, const Endpoint& from, std::span<const std::uint8_t> bytes) {
  // Otherwise two nodes without a common version would answer each other forever.
  if (bytes[ATP_AT_TYPE] == ATP_STATUS) return;
  ControlHead head;
  head.version = version_of_answer(bytes[ATP_AT_VERSION]);
  head.job = {atp_load32(&bytes[ATP_AT_JOB]), atp_load32(&bytes[ATP_AT_INCARNATION])};
  StatusMessage status;
  status.code = StatusCode::kVersions;
  status.reason = versions_number(ATP_VERSION, ATP_VERSION);
  // The bitmap of that version cannot be read, so the answer is addressed to every rank.
  send(turn, from, bytes.size(), head, ranks_of_width(head.bitmap_words), status);
}

}  // namespace atp
