#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "atp/base/result.h"

// The keyed hashes of docs/inside/protocol §2, *Keys*, computed by libsodium.
//
// SipHash-2-4 is its cheapest hash that needs no fresh number for each packet: 0.7 µs for a packet
// of 1440 bytes, where BLAKE2b takes 2.0 and HMAC-SHA-256 7.4. (GMAC, which needs such a number,
// takes 0.4.) Several packets at a time take less: 0.2 µs each with AVX-512, 0.4 with AVX2
// (siphash_lanes.h). Of the hash's 128 bits the first 64 are sent.

namespace atp {

using TenantKey = std::array<std::uint8_t, 32>;
using PacketKey = std::array<std::uint8_t, 16>;

// Fails in a build without libsodium, which can use no keys; call this first. In such a build the
// functions below stop the process.
Status macs_available();

// The key of all packets of a job.
PacketKey packet_key(const TenantKey& key, std::uint32_t job);

std::uint64_t packet_tag(const PacketKey& key, std::span<const std::uint8_t> bytes);

// Writes the tags of packets of one length, as many as there are packets.
void packet_tags(const PacketKey& key, std::span<const std::uint8_t* const> packets,
                 std::size_t length, std::uint64_t* tags);

// The number that stands for a tenant's name in a packet.
std::uint32_t key_id(std::string_view name);

// A number by which two ranks compare their keys without showing them. It is unrelated to the keys
// of jobs.
std::uint64_t key_print(const TenantKey& key);

TenantKey random_key();

}  // namespace atp
