// Room and addressing in the outbox, and the writers of control messages.
#include "atp/core/outbox.h"

#include <algorithm>

namespace atp {
namespace {

constexpr std::size_t kLargestPacket =
    ATP_HEADER_BYTES + 8 * ATP_BITMAP_WORDS_MAX + 4 * ATP_VALUES_MAX;

atp_header header_of(const ControlHead& head) {
  atp_header h{};
  h.version = head.version;
  h.type = static_cast<std::uint8_t>(head.type);
  h.flags = head.flags;
  h.bitmap_words = head.bitmap_words;
  h.job = head.job.job;
  h.incarnation = head.job.incarnation;
  h.tenant = head.job.tenant;
  h.stream = head.stream;
  h.sequence = head.sequence;
  h.operation = head.operation;
  h.hops = ATP_HOPS;
  return h;
}

// Reserves head and body and writes the head; returns the place of the body.
std::uint8_t* put_head(Outbox& out, const atp_header& header, const RankSet& ranks,
                       std::size_t body_bytes) {
  const std::size_t body_at = atp_body_offset(header.bitmap_words);
  const std::span<std::uint8_t> bytes = out.reserve(body_at + body_bytes);
  if (bytes.empty()) return nullptr;
  write_packet_head(bytes.data(), header, ranks);
  return bytes.data() + body_at;
}

}  // namespace

Outbox::Outbox(std::size_t packets, std::size_t bytes, std::size_t spare)
    : packet_limit_(packets), arena_(bytes), spare_(spare) {
  packets_.reserve(packets);
}

bool Outbox::has_room(std::size_t packets) const {
  return packets_.size() + packets <= packet_limit_ &&
         used_ + packets * (kLargestPacket + spare_) <= arena_.size();
}

bool Outbox::has_room_for_copies(std::size_t destinations) const {
  return packets_.size() + destinations <= packet_limit_ &&
         used_ + kLargestPacket + spare_ <= arena_.size();
}

std::span<std::uint8_t> Outbox::reserve(std::size_t length) {
  payload_length_ = 0;
  if (used_ + length + spare_ > arena_.size()) {
    ++lost_;
    return {};
  }
  payload_offset_ = static_cast<std::uint32_t>(used_);
  payload_length_ = static_cast<std::uint32_t>(length);
  used_ += length + spare_;
  return {arena_.data() + payload_offset_, length};
}

void Outbox::send_to(const Endpoint& to) {
  if (payload_length_ == 0) return;  // the reservation was refused and counted
  if (packets_.size() == packet_limit_) {
    ++lost_;
    return;
  }
  packets_.push_back({to, payload_offset_, payload_length_});
}

void Outbox::send(const Endpoint& to, std::span<const std::uint8_t> bytes) {
  const std::span<std::uint8_t> place = reserve(bytes.size());
  if (place.empty()) return;
  std::copy(bytes.begin(), bytes.end(), place.begin());
  send_to(to);
}

void Outbox::pass_on(const Endpoint& to, std::span<const std::uint8_t> bytes, std::uint8_t part) {
  const std::span<std::uint8_t> place = reserve(bytes.size());
  if (place.empty()) return;
  std::copy(bytes.begin(), bytes.end(), place.begin());
  --place[ATP_AT_HOPS];
  if (part != 0 && (place[ATP_AT_PART] == 0 || part < place[ATP_AT_PART])) {
    place[ATP_AT_PART] = part;
  }
  send_to(to);
}

void Outbox::clear() {
  packets_.clear();
  used_ = 0;
  payload_length_ = 0;
}

bool put_join(Outbox& out, const ControlHead& head, const RankSet& ranks, const Join& body) {
  std::uint8_t* at = put_head(out, header_of(head), ranks, Join::kBytes);
  if (at == nullptr) return false;
  body.write(at);
  return true;
}

bool put_join_ack(Outbox& out, const ControlHead& head, const RankSet& ranks, const JoinAck& body) {
  std::uint8_t* at = put_head(out, header_of(head), ranks, JoinAck::kBytes);
  if (at == nullptr) return false;
  body.write(at);
  return true;
}

bool put_leave(Outbox& out, const ControlHead& head, const RankSet& ranks, const Leave& body) {
  std::uint8_t* at = put_head(out, header_of(head), ranks, Leave::kBytes);
  if (at == nullptr) return false;
  body.write(at);
  return true;
}

bool put_status(Outbox& out, const ControlHead& head, const RankSet& ranks,
                const StatusMessage& body) {
  std::uint8_t* at = put_head(out, header_of(head), ranks, body.bytes(head.bitmap_words));
  if (at == nullptr) return false;
  body.write(at, head.bitmap_words);
  return true;
}

bool put_bare(Outbox& out, const atp_header& header, const RankSet& ranks) {
  return put_head(out, header, ranks, 0) != nullptr;
}

}  // namespace atp
