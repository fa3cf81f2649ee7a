#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

// SipHash-2-4 (Aumasson and Bernstein, 2012), a keyed hash for short messages. The steps work on
// one word or on a vector of them (atp/driver/keys/siphash_lanes.h).

namespace atp {

using HashKey = std::array<std::uint64_t, 2>;

template <int kBits, class Word>
[[gnu::always_inline]] inline void sip_rotate(Word& word) {
  word = (word << kBits) | (word >> (64 - kBits));
}

template <class Word>
[[gnu::always_inline]] inline void sip_round(Word& v0, Word& v1, Word& v2, Word& v3) {
  v0 += v1;
  v2 += v3;
  sip_rotate<13>(v1);
  sip_rotate<16>(v3);
  v1 ^= v0;
  v3 ^= v2;
  sip_rotate<32>(v0);
  v2 += v1;
  v0 += v3;
  sip_rotate<17>(v1);
  sip_rotate<21>(v3);
  v1 ^= v2;
  v3 ^= v0;
  sip_rotate<32>(v2);
}

template <class Word>
[[gnu::always_inline]] inline void sip_add(Word& v0, Word& v1, Word& v2, Word& v3,
                                           const Word& message) {
  v3 ^= message;
  sip_round(v0, v1, v2, v3);
  sip_round(v0, v1, v2, v3);
  v0 ^= message;
}

inline constexpr std::array<std::uint64_t, 4> kSipStart{0x736f6d6570736575, 0x646f72616e646f6d,
                                                        0x6c7967656e657261, 0x7465646279746573};

// The variant with 64 bits, of at most 255 bytes.
std::uint64_t sip_hash(const HashKey& key, std::span<const std::uint8_t> message);

}  // namespace atp
