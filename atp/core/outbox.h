#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "atp/wire/endpoint.h"
#include "atp/wire/join.h"
#include "atp/wire/packet_view.h"
#include "atp/wire/status.h"

// Where a node of the core puts the packets that it wants sent: the driver passes an empty Outbox
// in, and sends and clears what it finds there afterwards. Memory is taken once, at construction.
// One payload may have several destinations (a PARAMETER for every child) and is stored once.
//
// An Outbox that is full loses the packet and counts it, just as a full queue would; the protocol
// recovers from that like from any loss. Drivers keep it from happening: they hand in an Outbox
// with room for everything that one input can cause, and nodes ask has_room() before they send
// what could as well wait.

namespace atp {

struct OutPacket {
  Endpoint to;
  std::uint32_t offset = 0;
  std::uint32_t length = 0;
};

class Outbox {
 public:
  explicit Outbox(std::size_t packets = 2048, std::size_t bytes = std::size_t{4} << 20);

  // Room for `packets` payloads of the largest packet there is?
  bool has_room(std::size_t packets) const;

  // Room for one such payload with so many destinations?
  bool has_room_for_copies(std::size_t destinations) const;

  // Reserves a payload; send_to() then addresses it, any number of times. Empty if it is full.
  std::span<std::uint8_t> reserve(std::size_t length);
  void send_to(const Endpoint& to);

  // Copies the bytes of a packet, with one hop less to go.
  void pass_on(const Endpoint& to, std::span<const std::uint8_t> bytes);
  // Copies finished bytes.
  void send(const Endpoint& to, std::span<const std::uint8_t> bytes);

  std::span<const OutPacket> packets() const { return {packets_.data(), packets_.size()}; }
  std::span<const std::uint8_t> bytes_of(const OutPacket& packet) const {
    return {arena_.data() + packet.offset, packet.length};
  }
  bool empty() const { return packets_.empty(); }
  std::uint64_t lost() const { return lost_; }
  void clear();

 private:
  std::vector<OutPacket> packets_;
  std::size_t packet_limit_;
  std::vector<std::uint8_t> arena_;
  std::size_t used_ = 0;
  std::uint32_t payload_offset_ = 0;
  std::uint32_t payload_length_ = 0;  // 0: nothing reserved
  std::uint64_t lost_ = 0;
};

// A control message, addressed to `to`: header fields that its type leaves open are 0.
struct ControlHead {
  PacketType type = PacketType::kStatus;
  std::uint8_t version = ATP_VERSION;
  std::uint8_t flags = 0;
  std::uint8_t bitmap_words = 1;
  JobKey job;
  std::uint16_t stream = 0;
  std::uint64_t sequence = 0;
  std::uint32_t operation = 0;
};

// Writes head and body into the outbox; send_to() then addresses the message. False if it was full.
bool put_join(Outbox& out, const ControlHead& head, const RankSet& ranks, const Join& body);
bool put_join_ack(Outbox& out, const ControlHead& head, const RankSet& ranks, const JoinAck& body);
bool put_leave(Outbox& out, const ControlHead& head, const RankSet& ranks, const Leave& body);
bool put_status(Outbox& out, const ControlHead& head, const RankSet& ranks,
                const StatusMessage& body);

// A packet without values or body: FLUSH and NACK.
bool put_bare(Outbox& out, const atp_header& header, const RankSet& ranks);

}  // namespace atp
