#include "atp/sim/proof_judge.h"

#include "atp/wire/status.h"

namespace atp::sim {
namespace {

bool goes_up(const PacketView& packet) {
  const PacketType type = packet.type();
  return type == PacketType::kGradient || type == PacketType::kJoin || type == PacketType::kLeave ||
         (type == PacketType::kStatus && StatusMessage::answer_to(packet));
}

}  // namespace

bool ProofJudge::end_join(const Endpoint& from, const PacketView& packet, const Join& join,
                          const Outbox& out, const Object& object) {
  const Place place{packet.job(), from};
  const auto known = told_.find(place);
  const bool counts = known != told_.end() && known->second == join.proof;
  std::optional<StatusMessage> asked;
  bool is_its = false;
  for (const OutPacket& sent : out.packets()) {
    const ParsedPacket parsed = parse_packet(out.bytes_of(sent));
    if (!parsed.ok() || parsed.view().type() != PacketType::kStatus) continue;
    const std::optional<StatusMessage> status = StatusMessage::read(parsed.view());
    if (!status || status->code != StatusCode::kProve) continue;
    asked = status;
    is_its = sent.to == from && parsed.view().ranks == packet.ranks &&
             parsed.view().has(ATP_FLAG_DIRECT) == packet.has(ATP_FLAG_DIRECT) &&
             status->nonce == join.nonce;
  }
  if (counts) {
    proven_.insert(place);
    if (asked) object("a JOIN with a right proof was answered with *prove*");
    return true;
  }
  if (!asked || out.packets().size() != 1) object("a JOIN without a right proof counted");
  if (!asked) return false;
  if (!is_its) object("*prove* did not answer its JOIN");
  note(place, asked->proof(), object);
  return false;
}

void ProofJudge::note(const Place& place, std::uint64_t proof, const Object& object) {
  const auto [told, is_first] = told_.emplace(place, proof);
  if (!is_first && told->second != proof) object("a sender was told two proofs");
  const auto [holder, is_new] = place_of_.emplace(proof, place);
  if (!is_new && holder->second != place) object("two senders were told the same proof");
}

void ProofJudge::expect_receivers(const Endpoint& from, std::span<const std::uint8_t> cause,
                                  const Outbox& out, const Object& object) const {
  std::size_t answers = 0;
  for (const OutPacket& sent : out.packets()) {
    const ParsedPacket parsed = parse_packet(out.bytes_of(sent));
    if (parsed.ok() &&
        (goes_up(parsed.view()) || proven_.contains({parsed.view().job(), sent.to}))) {
      continue;
    }
    const bool is_answer = sent.to == from && sent.length <= cause.size() && ++answers == 1;
    if (!is_answer) object("a packet went to an address that has not proven itself");
  }
}

std::optional<std::uint64_t> ProofJudge::told(const JobKey& job, const Endpoint& sender) const {
  const auto known = told_.find({job, sender});
  return known == told_.end() ? std::nullopt : std::optional(known->second);
}

}  // namespace atp::sim
