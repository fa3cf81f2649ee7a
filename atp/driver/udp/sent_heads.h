#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

#include "atp/wire/endpoint.h"

// Remembers what a socket has sent lately, to tell genuine ICMP errors from forged ones.
//
// An ICMP error reports that packets to some address do not arrive. Anybody can forge one, from
// anywhere: our addresses and ports are no secret. But a router that really dropped a packet has
// seen it and quotes its beginning: our header, then values or a JOIN's nonce, which a stranger
// would have to guess. So an error counts only if it quotes a packet that this socket has sent.
//
// Only the first packet of each train is remembered, as a hash: an error about a train quotes its
// first packet too. The quoted packet must have been sent in this period or the one before, since
// whoever captures packets could quote old ones; at full speed, later trains overwrite it within
// tens of milliseconds.

namespace atp {

class SentHeads {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kPeriod{1};

  SentHeads();

  void add(const Endpoint& to, std::span<const std::uint8_t> packet,
           Clock::time_point now = Clock::now());

  // `quote`: as much of the packet's beginning as the error quotes.
  bool contain(const Endpoint& to, std::span<const std::uint8_t> quote,
               Clock::time_point now = Clock::now()) const;

  // A packet is compared up to this many bytes after header and bitmap. (Of an IPv4
  // packet, Linux quotes up to 520 bytes of UDP payload, and routers that follow RFC 4884 at least
  // 100: enough with a bitmap of one word.)
  static constexpr std::size_t kBodyBytes = 48;
  static constexpr std::size_t kMostBytes = 40 + 16 * 8 + kBodyBytes;

 private:
  static constexpr std::size_t kSlots = 4096;

  std::uint64_t hash(const Endpoint& to, std::span<const std::uint8_t> bytes,
                     Clock::time_point sent) const;

  std::uint64_t seed_;
  std::array<std::uint64_t, kSlots> hashes_{};  // 0: none
};

}  // namespace atp
