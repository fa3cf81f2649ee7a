#include "atp/driver/keys/siphash_lanes.h"

#include <bit>
#include <cstring>

#include "atp/base/check.h"
#include "atp/base/siphash.h"

namespace atp {

#if defined(__x86_64__)

namespace {

// A word of each lane. Nothing takes or returns one across a call: its calling convention depends
// on the processor.
template <std::size_t kLanes>
struct Word {
  typedef std::uint64_t Type
      __attribute__((vector_size(8 * kLanes)));  // NOLINT(modernize-use-using)
};

static_assert(std::endian::native == std::endian::little, "SipHash reads little-endian words");

[[gnu::always_inline]] inline std::uint64_t load_word(const std::uint8_t* at, std::size_t bytes) {
  std::uint64_t word = 0;
  std::memcpy(&word, at, bytes);
  return word;
}

// The variant with 128 bits changes the state by 0xee, at the start and before the last four
// rounds.
template <std::size_t kLanes>
[[gnu::always_inline]] inline void hash(const PacketKey& key, const std::uint8_t* const* messages,
                                        std::size_t length, std::uint64_t* hashes) {
  using Words = typename Word<kLanes>::Type;
  const std::uint64_t k0 = load_word(key.data(), 8);
  const std::uint64_t k1 = load_word(key.data() + 8, 8);
  constexpr Words kZero{};
  Words v0 = kZero + (k0 ^ kSipStart[0]);
  Words v1 = kZero + (k1 ^ kSipStart[1] ^ 0xee);
  Words v2 = kZero + (k0 ^ kSipStart[2]);
  Words v3 = kZero + (k1 ^ kSipStart[3]);
  const std::size_t whole = length / 8 * 8;
  Words m{};
  for (std::size_t at = 0; at < whole; at += 8) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) m[lane] = load_word(messages[lane] + at, 8);
    sip_add(v0, v1, v2, v3, m);
  }
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    m[lane] = load_word(messages[lane] + whole, length - whole) | (std::uint64_t{length} << 56);
  }
  sip_add(v0, v1, v2, v3, m);
  v2 ^= kZero + 0xee;
  for (int i = 0; i < 4; ++i) sip_round(v0, v1, v2, v3);
  const Words result = v0 ^ v1 ^ v2 ^ v3;
  for (std::size_t lane = 0; lane < kLanes; ++lane) hashes[lane] = __builtin_bswap64(result[lane]);
}

[[gnu::target("avx512f,avx512vl")]] void hash_eight(const PacketKey& key,
                                                    const std::uint8_t* const* messages,
                                                    std::size_t length, std::uint64_t* hashes) {
  hash<8>(key, messages, length, hashes);
}

[[gnu::target("avx2")]] void hash_four(const PacketKey& key, const std::uint8_t* const* messages,
                                       std::size_t length, std::uint64_t* hashes) {
  hash<4>(key, messages, length, hashes);
}

}  // namespace

std::size_t hash_lanes_here() {
  if (__builtin_cpu_supports("avx512vl")) return 8;
  return __builtin_cpu_supports("avx2") ? 4 : 1;
}

void hash_lanes(std::size_t lanes, const PacketKey& key, const std::uint8_t* const* messages,
                std::size_t length, std::uint64_t* hashes) {
  ATP_CHECK((lanes == 4 || lanes == 8) && lanes <= hash_lanes_here());
  lanes == 8 ? hash_eight(key, messages, length, hashes) : hash_four(key, messages, length, hashes);
}

#else

std::size_t hash_lanes_here() { return 1; }

void hash_lanes(std::size_t, const PacketKey&, const std::uint8_t* const*, std::size_t,
                std::uint64_t*) {
  ATP_CHECK(false && "this processor hashes one message at a time");
}

#endif

}  // namespace atp
