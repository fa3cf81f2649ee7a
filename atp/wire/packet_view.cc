#include "atp/wire/packet_view.h"

namespace atp {
namespace {

bool carries_values(const atp_header& h) {
  return h.type == ATP_GRADIENT || h.type == ATP_PARAMETER;
}

bool carries_body(const atp_header& h) { return h.type >= ATP_JOIN; }

}  // namespace

std::string_view to_string(PacketType type) {
  switch (type) {
    case PacketType::kGradient: return "GRADIENT";
    case PacketType::kParameter: return "PARAMETER";
    case PacketType::kFlush: return "FLUSH";
    case PacketType::kNack: return "NACK";
    case PacketType::kJoin: return "JOIN";
    case PacketType::kJoinAck: return "JOIN_ACK";
    case PacketType::kLeave: return "LEAVE";
    case PacketType::kStatus: return "STATUS";
  }
  return "unknown";
}

std::string_view to_string(ParseError error) {
  switch (error) {
    case ParseError::kTooShort: return "drop_too_short";
    case ParseError::kUnknownVersion: return "drop_unknown_version";
    case ParseError::kUnknownType: return "drop_unknown_type";
    case ParseError::kUnknownFlags: return "drop_unknown_flags";
    case ParseError::kUnknownKind: return "drop_unknown_kind";
    case ParseError::kBadBitmapWidth: return "drop_bad_bitmap_width";
    case ParseError::kBadValueCount: return "drop_bad_value_count";
    case ParseError::kBadLength: return "drop_bad_length";
    case ParseError::kCount: break;
  }
  return "none";
}

ParseError ParsedPacket::read(std::span<const std::uint8_t> bytes) {
  if (bytes.size() < 12) return ParseError::kTooShort;
  if (bytes[ATP_AT_VERSION] != ATP_VERSION) return ParseError::kUnknownVersion;
  if (bytes.size() < ATP_HEADER_BYTES) return ParseError::kTooShort;

  atp_header& h = view_.header;
  atp_read_header(bytes.data(), &h);
  if (h.type >= ATP_PACKET_TYPES) return ParseError::kUnknownType;
  if ((h.flags & ~ATP_FLAGS_KNOWN) != 0) return ParseError::kUnknownFlags;
  if (h.bitmap_words == 0 || h.bitmap_words > ATP_BITMAP_WORDS_MAX) {
    return ParseError::kBadBitmapWidth;
  }
  // The classes of more than 64 ranks would not fit into 16 bits.
  const bool is_too_wide = h.kind == ATP_KIND_SUM_BLOCKS_INT16 && h.bitmap_words > 1;
  if (atp_kind_known(h.kind) == 0 || is_too_wide || h.tenant == ATP_TENANT_INVALID) {
    return ParseError::kUnknownKind;
  }
  const std::uint32_t most = carries_values(h) ? atp_most_values(h.kind, ATP_VALUES_MAX) : 0;
  const bool count_ok = h.value_count <= most && (h.value_count > 0) == carries_values(h);
  if (!count_ok) return ParseError::kBadValueCount;

  const std::size_t expected = atp_packet_bytes(h.bitmap_words, h.kind, h.value_count);
  if (bytes.size() < expected) return ParseError::kTooShort;
  if (bytes.size() > expected && !carries_body(h)) return ParseError::kBadLength;

  for (std::size_t w = 0; w < h.bitmap_words; ++w) {
    view_.ranks.set_word(w, atp_load64(bytes.data() + ATP_AT_BITMAP + 8 * w));
  }
  view_.body = bytes.subspan(atp_body_offset(h.bitmap_words));
  view_.bytes = bytes;
  return ParseError::kCount;
}

void write_packet_head(std::uint8_t* at, const atp_header& header, const RankSet& ranks) {
  atp_write_header(at, &header);
  for (std::size_t w = 0; w < header.bitmap_words; ++w) {
    atp_store64(at + ATP_AT_BITMAP + 8 * w, ranks.words()[w]);
  }
}

}  // namespace atp
