#pragma once

#include <vector>

#include "atp/core/topology/proof.h"
#include "atp/wire/join.h"

namespace atp {

// Gives a JOIN the proof that a node with this secret wants from this sender; leaves any other
// packet as it is.
inline std::vector<std::uint8_t> proven(const HashKey& secret, const Endpoint& from,
                                        std::vector<std::uint8_t> bytes) {
  const ParsedPacket parsed = parse_packet(bytes);
  if (!parsed.ok() || parsed.view().type() != PacketType::kJoin) return bytes;
  if (parsed.view().body.size() != Join::kBytes) return bytes;
  const std::size_t at = atp_body_offset(parsed.view().header.bitmap_words);
  atp_store64(&bytes[at + join_field::kProof.offset], proof_of(secret, parsed.view().job(), from));
  return bytes;
}

}  // namespace atp
