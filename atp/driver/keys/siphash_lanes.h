#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "atp/driver/keys/mac.h"

// SipHash-2-4 of several messages at a time, one per lane of a vector register.
//
// A single SipHash cannot use a processor's vector units, because each of its steps needs the one
// before. No library computes several at a time, so we do, and the tests compare each result with
// libsodium's.

namespace atp {

inline constexpr std::size_t kMaxHashLanes = 8;

// How many messages this processor hashes at a time: 8 with AVX-512, 4 with AVX2, else 1 (and then
// hash_lanes() may not be called).
std::size_t hash_lanes_here();

// Writes packet_tag() of each message. There are `lanes` of them, which is 4 or 8 and at most
// hash_lanes_here(), each of `length` bytes.
void hash_lanes(std::size_t lanes, const PacketKey& key, const std::uint8_t* const* messages,
                std::size_t length, std::uint64_t* hashes);

}  // namespace atp
