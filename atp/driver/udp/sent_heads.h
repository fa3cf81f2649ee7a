#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "atp/wire/endpoint.h"

// What a socket has sent lately, so that it need not believe everybody.
//
// An ICMP error says that packets to some address do not arrive, and anybody can send one, from
// anywhere: our addresses and ports are no secret. But who has really dropped a packet has seen it,
// and quotes how it begins: our header, and behind it values or a JOIN's nonce, which a stranger
// would have to guess. So an error counts only if it quotes what this socket has sent.
//
// The first packet of each train is remembered, as a hash: an error that a train meets is told of
// its first packet, too. A later train takes an earlier one's place sooner or later, so what an
// error quotes must have been sent lately, tens of milliseconds ago at full speed.

namespace atp {

class SentHeads {
 public:
  SentHeads();

  void add(const Endpoint& to, std::span<const std::uint8_t> packet);

  // `quote`: how the packet begins about which there is an error, as far as it was sent back.
  bool contain(const Endpoint& to, std::span<const std::uint8_t> quote) const;

  // What is compared of a packet, if it has as much: header, bitmap and this much behind them.
  // (Linux quotes 548 bytes, routers that follow RFC 4884 at least 100.)
  static constexpr std::size_t kBodyBytes = 48;
  static constexpr std::size_t kMostBytes = 40 + 16 * 8 + kBodyBytes;

 private:
  static constexpr std::size_t kSlots = 4096;

  static bool is_guessable(std::span<const std::uint8_t> packet);
  std::uint64_t hash(const Endpoint& to, std::span<const std::uint8_t> bytes) const;

  std::uint64_t seed_;
  std::array<std::uint64_t, kSlots> hashes_{};  // 0: none
};

}  // namespace atp
