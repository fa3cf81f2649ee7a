#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

// Loads and stores one value of a packet: four or two bytes in network byte order, at any address.
//
// ATP_VALUE_LOOP marks a function whose body is a plain loop over the values of a fragment, which
// the compiler turns into SIMD. Swapping bytes and converting to double need instructions that the
// x86-64 baseline lacks, so such a function is compiled for AVX2 too, and the loader picks the
// version for the machine. The thread sanitizer is not ready when the loader's resolver runs, so
// its builds have one version only. Functions called in the loop are ATP_IN_VALUE_LOOP, which
// inlines them into both versions.

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__)
#define ATP_VALUE_LOOP __attribute__((target_clones("avx2", "default")))
#else
#define ATP_VALUE_LOOP
#endif
#define ATP_IN_VALUE_LOOP [[gnu::always_inline]] inline
#define ATP_INLINE_LAMBDA __attribute__((always_inline))

namespace atp {

// One byte swap; the loads of packet.h, which must compile for BPF, read four bytes one by one.
ATP_IN_VALUE_LOOP std::uint32_t load_value(const std::uint8_t* at) {
  std::uint32_t wire;
  std::memcpy(&wire, at, sizeof wire);
  return std::endian::native == std::endian::little ? __builtin_bswap32(wire) : wire;
}

ATP_IN_VALUE_LOOP void store_value(std::uint8_t* at, std::uint32_t value) {
  const std::uint32_t wire =
      std::endian::native == std::endian::little ? __builtin_bswap32(value) : value;
  std::memcpy(at, &wire, sizeof wire);
}

// The same for two-byte values.
ATP_IN_VALUE_LOOP std::uint16_t load_value16(const std::uint8_t* at) {
  std::uint16_t wire;
  std::memcpy(&wire, at, sizeof wire);
  return std::endian::native == std::endian::little ? __builtin_bswap16(wire) : wire;
}

ATP_IN_VALUE_LOOP void store_value16(std::uint8_t* at, std::uint16_t value) {
  const std::uint16_t wire =
      std::endian::native == std::endian::little ? __builtin_bswap16(value) : value;
  std::memcpy(at, &wire, sizeof wire);
}

}  // namespace atp
