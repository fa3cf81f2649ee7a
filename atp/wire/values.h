#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

// The values of a packet, one at a time: four bytes each in network byte order, at any address. And
// ATP_VALUE_LOOP, which marks a function whose body is a plain loop over the values of a fragment,
// one element at a time, which the compiler turns into SIMD. Swapping bytes and converting to
// double need what the x86-64 baseline lacks, so such a function is compiled for AVX2 as well, and
// the loader picks the version for the machine. Its resolver runs before the thread sanitizer is
// ready, so not under that one.

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__)
#define ATP_VALUE_LOOP __attribute__((target_clones("avx2", "default")))
#else
#define ATP_VALUE_LOOP
#endif

namespace atp {

// In one swap, where packet.h's loads, which must compile for BPF too, take four bytes one by one.
inline std::uint32_t load_value(const std::uint8_t* at) {
  std::uint32_t wire;
  std::memcpy(&wire, at, sizeof wire);
  return std::endian::native == std::endian::little ? __builtin_bswap32(wire) : wire;
}

inline void store_value(std::uint8_t* at, std::uint32_t value) {
  const std::uint32_t wire =
      std::endian::native == std::endian::little ? __builtin_bswap32(value) : value;
  std::memcpy(at, &wire, sizeof wire);
}

}  // namespace atp
