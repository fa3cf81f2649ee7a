#include "atp/driver/udp/sent_heads.h"

// Inlines xxhash, so that the program runs without its shared library.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>

#include "atp/base/system_random.h"
#include "atp/wire/packet.h"

namespace atp {
namespace {

static_assert(SentHeads::kMostBytes ==
              ATP_HEADER_BYTES + 8 * ATP_BITMAP_WORDS_MAX + SentHeads::kBodyBytes);

std::size_t bytes_compared(std::span<const std::uint8_t> packet) {
  if (packet.size() <= ATP_AT_BITMAP_WORDS) return packet.size();
  const std::size_t words =
      std::min<std::size_t>(packet[ATP_AT_BITMAP_WORDS], ATP_BITMAP_WORDS_MAX);
  return std::min(packet.size(), ATP_HEADER_BYTES + 8 * words + SentHeads::kBodyBytes);
}

}  // namespace

// The seed is random, so nobody can search for other bytes with the same hash.
SentHeads::SentHeads() : seed_(random_seed()) {}

void SentHeads::add(const Endpoint& to, std::span<const std::uint8_t> packet,
                    Clock::time_point now) {
  const std::uint64_t added = hash(to, packet, now);
  hashes_[added % kSlots] = added;
}

bool SentHeads::contain(const Endpoint& to, std::span<const std::uint8_t> quote,
                        Clock::time_point now) const {
  if (quote.size() < ATP_HEADER_BYTES) return false;
  for (const Clock::time_point sent : {now, now - kPeriod}) {
    const std::uint64_t wanted = hash(to, quote, sent);
    if (hashes_[wanted % kSlots] == wanted) return true;
  }
  return false;
}

// The period is part of the hash, so that older packets are forgotten without being looked for.
std::uint64_t SentHeads::hash(const Endpoint& to, std::span<const std::uint8_t> bytes,
                              Clock::time_point sent) const {
  const auto period = static_cast<std::uint64_t>(sent.time_since_epoch() / kPeriod);
  const std::uint64_t of_endpoint =
      XXH3_64bits_withSeed(to.address.data(), to.address.size(), seed_ ^ to.port ^ period << 16);
  return XXH3_64bits_withSeed(bytes.data(), bytes_compared(bytes), of_endpoint);
}

}  // namespace atp
