#include "atp/base/siphash.h"

namespace atp {
namespace {

std::uint64_t little_endian(std::span<const std::uint8_t> bytes) {
  std::uint64_t word = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) word = word << 8 | bytes[i];
  return word;
}

}  // namespace

std::uint64_t sip_hash(const HashKey& key, std::span<const std::uint8_t> message) {
  std::uint64_t v0 = key[0] ^ kSipStart[0];
  std::uint64_t v1 = key[1] ^ kSipStart[1];
  std::uint64_t v2 = key[0] ^ kSipStart[2];
  std::uint64_t v3 = key[1] ^ kSipStart[3];
  const std::size_t whole = message.size() / 8 * 8;
  for (std::size_t at = 0; at < whole; at += 8) {
    sip_add(v0, v1, v2, v3, little_endian(message.subspan(at, 8)));
  }
  const std::uint64_t length = message.size();
  sip_add(v0, v1, v2, v3, little_endian(message.subspan(whole)) | length << 56);
  v2 ^= 0xff;
  for (int i = 0; i < 4; ++i) sip_round(v0, v1, v2, v3);
  return v0 ^ v1 ^ v2 ^ v3;
}

}  // namespace atp
