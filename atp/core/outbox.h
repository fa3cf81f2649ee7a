#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "atp/wire/endpoint.h"
#include "atp/wire/join.h"
#include "atp/wire/packet_view.h"
#include "atp/wire/status.h"

// Where a node of the core puts the packets to send: the driver passes in an empty Outbox, then
// sends and clears its contents. Memory is allocated once, at construction. One payload may have
// several destinations (a PARAMETER for every child) and is stored once.
//
// A full Outbox drops the packet and counts it, just as a full queue would; the protocol recovers
// from that as from any loss. Drivers prevent it: they pass an Outbox with room for everything that
// one input can cause, and nodes check has_room() before they send anything that can wait.

namespace atp {

struct OutPacket {
  Endpoint to;
  std::uint32_t offset = 0;
  std::uint32_t length = 0;
};

class Outbox {
 public:
  // `spare`: bytes left free after each payload, for what the driver adds to it.
  explicit Outbox(std::size_t packets = 2048, std::size_t bytes = std::size_t{4} << 20,
                  std::size_t spare = 0);

  // Whether there is room for `packets` payloads of the largest packet.
  bool has_room(std::size_t packets) const;

  // Whether there is room for one such payload with this many destinations.
  bool has_room_for_copies(std::size_t destinations) const;

  // Reserves a payload; send_to() then addresses it, any number of times. Empty if there is no
  // room.
  std::span<std::uint8_t> reserve(std::size_t length);
  void send_to(const Endpoint& to);

  // Copies the bytes of a packet, lowers its hop count by one, and if it is a PARAMETER, lowers its
  // part to this one (0: leave it).
  void pass_on(const Endpoint& to, std::span<const std::uint8_t> bytes, std::uint8_t part = 0);
  // Copies a finished packet.
  void send(const Endpoint& to, std::span<const std::uint8_t> bytes);

  std::span<const OutPacket> packets() const { return {packets_.data(), packets_.size()}; }
  std::span<const std::uint8_t> bytes_of(const OutPacket& packet) const {
    return {arena_.data() + packet.offset, packet.length};
  }
  // Calls edit(std::span<std::uint8_t> room, std::size_t length, const Endpoint& to) for each
  // payload with destinations, of which `to` is the first. `room` is the payload and the spare
  // bytes; the result is its new length.
  template <class Edit>
  void edit_payloads(Edit&& edit) {
    for (std::size_t i = 0; i < packets_.size();) {
      const OutPacket first = packets_[i];
      const std::span<std::uint8_t> room(arena_.data() + first.offset, first.length + spare_);
      const auto length = static_cast<std::uint32_t>(edit(room, first.length, first.to));
      for (; i < packets_.size() && packets_[i].offset == first.offset; ++i) {
        packets_[i].length = length;
      }
    }
  }

  bool empty() const { return packets_.empty(); }
  std::uint64_t lost() const { return lost_; }
  void clear();

 private:
  std::vector<OutPacket> packets_;
  std::size_t packet_limit_;
  std::vector<std::uint8_t> arena_;
  std::size_t spare_;
  std::size_t used_ = 0;
  std::uint32_t payload_offset_ = 0;
  std::uint32_t payload_length_ = 0;  // 0: nothing reserved
  std::uint64_t lost_ = 0;
};

// The head of a control message; header fields that its type does not use are 0.
struct ControlHead {
  PacketType type = PacketType::kStatus;
  std::uint8_t version = ATP_VERSION;
  std::uint8_t flags = 0;
  std::uint8_t bitmap_words = 1;
  JobKey job;
  std::uint16_t stream = 0;
  std::uint64_t sequence = 0;
  std::uint32_t operation = 0;
  bool operator==(const ControlHead&) const = default;
};

// Writes head and body into the outbox; send_to() then addresses the message. False if it is full.
bool put_join(Outbox& out, const ControlHead& head, const RankSet& ranks, const Join& body);
bool put_join_ack(Outbox& out, const ControlHead& head, const RankSet& ranks, const JoinAck& body);
bool put_leave(Outbox& out, const ControlHead& head, const RankSet& ranks, const Leave& body);
bool put_status(Outbox& out, const ControlHead& head, const RankSet& ranks,
                const StatusMessage& body);

// A packet without values or body: FLUSH and NACK.
bool put_bare(Outbox& out, const atp_header& header, const RankSet& ranks);

}  // namespace atp
