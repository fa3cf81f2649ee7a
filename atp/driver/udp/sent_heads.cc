#include "atp/driver/udp/sent_heads.h"

// Inlines xxhash, so that the program runs without its shared library.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <random>

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
SentHeads::SentHeads() {
  std::random_device device;
  seed_ = std::uint64_t{device()} << 32 | device();
}

void SentHeads::add(const Endpoint& to, std::span<const std::uint8_t> packet) {
  const std::uint64_t added = hash(to, packet);
  hashes_[added % kSlots] = added;
}

bool SentHeads::contain(const Endpoint& to, std::span<const std::uint8_t> quote) const {
  if (quote.size() < ATP_HEADER_BYTES) return false;
  const std::uint64_t wanted = hash(to, quote);
  return hashes_[wanted % kSlots] == wanted;
}

std::uint64_t SentHeads::hash(const Endpoint& to, std::span<const std::uint8_t> bytes) const {
  const std::uint64_t of_endpoint =
      XXH3_64bits_withSeed(to.address.data(), to.address.size(), seed_ ^ to.port);
  return XXH3_64bits_withSeed(bytes.data(), bytes_compared(bytes), of_endpoint);
}

}  // namespace atp
