#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "atp/base/rank_set.h"
#include "atp/wire/packet.h"

// Checked views over packet bytes. Only parse_packet() and ParsedPacket::read() make one: the view
// has a known version and type, a bitmap of legal width and exactly the length that its header
// states, so no later code checks lengths again (docs/inside/protocol §7.5). join.h and status.h
// check the control bodies.

namespace atp {

enum class PacketType : std::uint8_t {
  kGradient = ATP_GRADIENT,
  kParameter = ATP_PARAMETER,
  kFlush = ATP_FLUSH,
  kNack = ATP_NACK,
  kJoin = ATP_JOIN,
  kJoinAck = ATP_JOIN_ACK,
  kLeave = ATP_LEAVE,
  kStatus = ATP_STATUS,
};

std::string_view to_string(PacketType type);

// One start of one job. The wire repeats number and incarnation in every packet; whose job it is
// follows from the packet's tag, so ranks do not ask (docs/inside/protocol §2, *Keys*).
struct JobKey {
  std::uint32_t job = 0;
  std::uint32_t incarnation = 0;
  std::uint16_t tenant = 0;  // 0: no keys

  bool operator==(const JobKey&) const = default;
  // All incarnations of a tenant's job are adjacent, and so are all jobs of a number.
  std::strong_ordering operator<=>(const JobKey& other) const {
    if (job != other.job) return job <=> other.job;
    if (tenant != other.tenant) return tenant <=> other.tenant;
    return incarnation <=> other.incarnation;
  }
};

inline bool same_job(const JobKey& a, const JobKey& b) {
  return a.job == b.job && a.tenant == b.tenant;
}

// What identifies a fragment: two packets belong to the same one only if all of this agrees.
struct Identity {
  JobKey job;
  std::uint16_t stream = 0;
  std::uint64_t sequence = 0;
  std::uint32_t operation = 0;
  auto operator<=>(const Identity&) const = default;
};

enum class ParseError : std::uint8_t {
  kTooShort,        // fewer than 40 bytes, or the bitmap is cut off
  kUnknownVersion,  // bytes 0 … 11 can be read even so
  kUnknownType,
  kUnknownFlags,
  kUnknownKind,     // of values, or reserved bytes that are not 0
  kBadBitmapWidth,  // bitmap_words is not 1 … 16
  kBadValueCount,   // 0 or too many in a packet with values; not 0 in any other
  kBadLength,       // longer or shorter than the header says
  kCount,
};

std::string_view to_string(ParseError error);

// A parsed packet; refers to the caller's bytes.
struct PacketView {
  atp_header header{};
  RankSet ranks;                       // the bitmap
  std::span<const std::uint8_t> body;  // values or control body
  std::span<const std::uint8_t> bytes;

  PacketType type() const { return static_cast<PacketType>(header.type); }
  bool has(atp_packet_flag flag) const { return (header.flags & flag) != 0; }
  // How many switches have passed it on; more than any route has if its sender broke the rules.
  std::size_t switches_passed() const {
    return header.hops <= ATP_HOPS ? std::size_t{ATP_HOPS} - header.hops : std::size_t{ATP_HOPS};
  }
  // Of a PARAMETER: how many aggregators the job may have, as atp_part_of() reads it.
  std::uint8_t part() const { return bytes[ATP_AT_PART]; }
  JobKey job() const { return {header.job, header.incarnation, header.tenant}; }
  Identity identity() const { return {job(), header.stream, header.sequence, header.operation}; }
};

class ParsedPacket {
 public:
  explicit ParsedPacket(std::span<const std::uint8_t> bytes) : error_(read(bytes)) {}
  bool ok() const { return error_ == ParseError::kCount; }
  ParseError error() const { return error_; }
  const PacketView& view() const { return view_; }

 private:
  // Fills the view in. kCount: the packet is well-formed.
  ParseError read(std::span<const std::uint8_t> bytes);

  PacketView view_;
  ParseError error_;
};

inline ParsedPacket parse_packet(std::span<const std::uint8_t> bytes) {
  return ParsedPacket(bytes);
}

// Writes header and bitmap; `at` has room for atp_body_offset(header.bitmap_words) bytes. Ranks
// beyond the width must not be in the set.
void write_packet_head(std::uint8_t* at, const atp_header& header, const RankSet& ranks);

// The bitmap width of a job: enough 64-bit words for its ranks.
constexpr std::uint8_t bitmap_words_for(std::size_t world_size) {
  return static_cast<std::uint8_t>((world_size + 63) / 64);
}

// Every rank that a bitmap of this width can name.
constexpr RankSet ranks_of_width(std::uint8_t bitmap_words) {
  return RankSet::first(std::size_t{64} * bitmap_words);
}

// Reports congestion in the network to the end hosts: sets the flag ECN of a GRADIENT or PARAMETER,
// as a programmable switch would, and changes nothing else.
inline void mark_ecn(std::span<std::uint8_t> bytes) {
  if (bytes.size() < ATP_HEADER_BYTES || bytes[ATP_AT_TYPE] > ATP_PARAMETER) return;
  bytes[ATP_AT_FLAGS] |= ATP_FLAG_ECN;
}

}  // namespace atp
