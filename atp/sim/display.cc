// How packets are printed in a trace. Traces are compared byte by byte, so a change here changes
// all.
#include "atp/sim/display.h"

#include <algorithm>
#include <cstdio>

#include "atp/wire/join.h"
#include "atp/wire/packet_view.h"
#include "atp/wire/status.h"

namespace atp::sim {
namespace {

template <class... Arguments>
std::string text(const char* format, Arguments... arguments) {
  char line[256];
  std::snprintf(line, sizeof line, format, arguments...);
  return line;
}

std::string ranks_text(const RankSet& ranks) {
  std::string list = "{";
  ranks.for_each([&](Rank rank) {
    if (list.size() > 1) list += ',';
    list += std::to_string(rank);
  });
  return list + "}";
}

std::string flags_text(std::uint8_t flags) {
  static constexpr struct {
    int bit;
    const char* name;
  } kNames[] = {{ATP_FLAG_RESEND, " RESEND"},       {ATP_FLAG_DIRECT, " DIRECT"},
                {ATP_FLAG_COLLISION, " COLLISION"}, {ATP_FLAG_ECN, " ECN"},
                {ATP_FLAG_OVERFLOW, " OVERFLOW"},   {ATP_FLAG_FLOAT, " FLOAT"}};
  std::string list;
  for (const auto& [bit, name] : kNames) {
    if ((flags & bit) != 0) list += name;
  }
  return list;
}

std::string fragment_text(const PacketView& packet) {
  const atp_header& h = packet.header;
  std::string line =
      text(" sequence %llu operation %08x index %08x", static_cast<unsigned long long>(h.sequence),
           h.operation, h.aggregator_index);
  if (packet.type() == PacketType::kParameter) line += text(" next %08x", h.next_index);
  if (h.value_count > 0) line += text(" kind %02x magnitude %u values", h.kind, h.magnitude);
  for (std::size_t i = 0; i < std::min<std::size_t>(h.value_count, 4); ++i) {
    const std::uint8_t* at = packet.body.data() + atp_value_bytes(h.kind) * i;
    line += atp_value_bytes(h.kind) == 2 ? text(" %d", static_cast<std::int16_t>(atp_load16(at)))
                                         : text(" %d", static_cast<std::int32_t>(atp_load32(at)));
  }
  return line;
}

std::string join_text(const PacketView& packet) {
  const auto join = Join::read(packet.body);
  if (!join) return " (unreadable)";
  return text(" nonce %llx boot %llx W %u streams %u+%u K %u detachments %u%s hops left %zu",
              static_cast<unsigned long long>(join->nonce),
              static_cast<unsigned long long>(join->server_boot_id), join->world_size,
              join->first_stream, join->stream_count, join->max_value_count, join->detachments,
              join->detached ? " detached" : "", join->remaining.size());
}

std::string join_ack_text(const PacketView& packet) {
  const auto ack = JoinAck::read(packet.body);
  if (!ack) return " (unreadable)";
  return text(" boot %llx K %u Wmax %u detachments %u%s",
              static_cast<unsigned long long>(ack->server_boot_id), ack->value_count, ack->wmax,
              ack->detachments, ack->detached ? " detached" : "");
}

std::string status_text(const PacketView& packet) {
  const auto status = StatusMessage::read(packet);
  if (!status) return " (unreadable)";
  std::string line = " \"" + std::string(to_string(status->code)) + "\" about " +
                     ranks_text(status->about) + " other " + ranks_text(status->other) +
                     text(" reason %u", status->reason);
  if (status->number_count() > 0) line += text(" number %u", status->numbers[0]);
  if (packet.header.operation != 0 || packet.header.sequence != 0) line += fragment_text(packet);
  return line;
}

std::string body_text(const PacketView& packet) {
  switch (packet.type()) {
    case PacketType::kGradient:
    case PacketType::kParameter:
    case PacketType::kFlush:
    case PacketType::kNack: return fragment_text(packet);
    case PacketType::kJoin: return join_text(packet);
    case PacketType::kJoinAck: return join_ack_text(packet);
    case PacketType::kStatus: return status_text(packet);
    case PacketType::kLeave: break;
  }
  return "";
}

}  // namespace

std::string display(std::span<const std::uint8_t> bytes) {
  const ParsedPacket parsed = parse_packet(bytes);
  if (!parsed.ok()) {
    return text("%zu bytes (%s)", bytes.size(), std::string(to_string(parsed.error())).c_str());
  }
  const PacketView& packet = parsed.view();
  return std::string(to_string(packet.type())) +
         text(" job %u.%u of %u stream %u", packet.header.job, packet.header.incarnation,
              packet.header.tenant, packet.header.stream) +
         " " + ranks_text(packet.ranks) + flags_text(packet.header.flags) + body_text(packet);
}

std::string display(Instant now) {
  return text("%12.6f ms", static_cast<double>(now.time_since_epoch().count()) * 1e-6);
}

}  // namespace atp::sim
