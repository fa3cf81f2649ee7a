#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <vector>

#include "atp/core/dataplane/switch_node.h"
#include "atp/core/testing_drops.h"
#include "atp/core/topology/testing_proof.h"

// A test rig for a switch: packets in, packets out, counters. One job of four ranks on the streams
// 0 … 3, rank r behind child(r); the route is the switch, then the server.

namespace atp::rig {

using namespace std::chrono_literals;
using Bytes = std::vector<std::uint8_t>;

inline constexpr JobKey kJob{7, 8};
inline constexpr std::uint16_t kValues = 5;
inline constexpr std::uint32_t kWmax = 16;
inline constexpr Endpoint kOwn = Endpoint::ipv4(10, 0, 0, 1, 5501);
inline constexpr Endpoint kServer = Endpoint::ipv4(10, 0, 1, 1, 5500);
inline constexpr Endpoint kStranger = Endpoint::ipv4(10, 0, 9, 9, 999);

inline Endpoint child(unsigned rank) {
  return Endpoint::ipv4(10, 0, 0, static_cast<std::uint8_t>(100 + rank), 4000);
}
inline std::uint64_t nonce(unsigned rank) { return 1000 + rank; }

inline RankSet ranks(std::initializer_list<int> list) {
  RankSet set;
  for (const int rank : list) set.insert(static_cast<Rank>(rank));
  return set;
}

inline SwitchConfig config() {
  SwitchConfig config;
  config.aggregators = 64;
  config.max_value_count = 8;
  config.max_trees = 4;
  config.secret = {5, 6};
  Prefix servers;
  servers.address = Endpoint::ipv4(10, 0, 1, 0, 0).address;
  servers.bits = 96 + 24;
  config.upstream = UpstreamPolicy({servers});
  return config;
}

// A packet that the switch sent.
struct Sent {
  Endpoint to;
  Bytes bytes;

  PacketView view() const {
    const ParsedPacket parsed = parse_packet(bytes);
    const bool is_for_an_earlier_version =
        bytes[ATP_AT_VERSION] < ATP_VERSION && bytes[ATP_AT_TYPE] == ATP_STATUS;
    EXPECT_TRUE(parsed.ok() || is_for_an_earlier_version)
        << "the switch sent a packet that cannot be parsed";
    return parsed.view();
  }
  StatusMessage status() const {
    const PacketView packet = view();
    EXPECT_EQ(packet.type(), PacketType::kStatus);
    const auto status = StatusMessage::read(packet);
    EXPECT_TRUE(status.has_value());
    return status.value_or(StatusMessage{});
  }
  std::vector<std::uint32_t> values() const {
    const PacketView packet = view();
    std::vector<std::uint32_t> values;
    for (std::size_t i = 0; i + 4 <= packet.body.size(); i += 4) {
      values.push_back(atp_load32(&packet.body[i]));
    }
    return values;
  }
};

inline atp_header head(PacketType type, std::uint64_t sequence) {
  atp_header h{};
  h.version = ATP_VERSION;
  h.type = static_cast<std::uint8_t>(type);
  h.bitmap_words = 1;
  h.job = kJob.job;
  h.incarnation = kJob.incarnation;
  h.sequence = sequence;
  h.aggregator_index = atp_fmix32(static_cast<std::uint32_t>(sequence));
  h.operation = 77;
  h.kind = ATP_KIND_SUM_FIXED;
  h.hops = ATP_HOPS;
  return h;
}

inline Bytes packet(const atp_header& header, const RankSet& set, std::uint32_t value = 0) {
  Bytes bytes(atp_packet_bytes(header.bitmap_words, header.kind, header.value_count));
  write_packet_head(bytes.data(), header, set);
  const std::size_t body = atp_body_offset(header.bitmap_words);
  for (std::size_t at = body; at + 4 <= bytes.size(); at += 4) atp_store32(&bytes[at], value);
  return bytes;
}

inline Bytes gradient(const RankSet& set, std::uint64_t sequence, std::uint32_t value,
                      unsigned flags = 0) {
  atp_header h = head(PacketType::kGradient, sequence);
  h.flags = static_cast<std::uint8_t>(flags);
  h.value_count = kValues;
  h.magnitude = value;
  return packet(h, set, value);
}

inline Bytes parameter(const RankSet& set, std::uint64_t sequence, std::uint32_t value = 10) {
  atp_header h = head(PacketType::kParameter, sequence);
  h.value_count = kValues;
  return packet(h, set, value);
}

inline Bytes bare(PacketType type, const RankSet& set, std::uint64_t sequence) {
  return packet(head(type, sequence), set);
}

inline Join join_body(unsigned rank) {
  Join join;
  join.nonce = nonce(rank);
  join.world_size = 4;
  join.stream_count = 4;
  join.max_value_count = 350;
  join.remaining.push_back(kOwn);
  join.remaining.push_back(kServer);
  return join;
}

inline JoinAck ack_body() {
  JoinAck ack;
  ack.server_boot_id = 1;
  ack.scale = 1;
  ack.lease_ms = 5000;
  ack.wmax = kWmax;
  ack.value_count = kValues;
  ack.world_size = 4;
  ack.stream_count = 4;
  return ack;
}

// The bytes of one control message.
template <class Put, class Body>
Bytes control(Put put, const ControlHead& control_head, const RankSet& set, const Body& body) {
  Outbox out;
  EXPECT_TRUE(put(out, control_head, set, body));
  out.send_to(kServer);
  const auto bytes = out.bytes_of(out.packets()[0]);
  return {bytes.begin(), bytes.end()};
}

inline Bytes join(unsigned rank, const Join& body, unsigned flags = 0) {
  const ControlHead control_head{.type = PacketType::kJoin,
                                 .flags = static_cast<std::uint8_t>(flags),
                                 .bitmap_words = bitmap_words_for(body.world_size),
                                 .job = kJob,
                                 .stream = body.first_stream};
  return control(put_join, control_head, RankSet::of(static_cast<Rank>(rank)), body);
}
inline Bytes join(unsigned rank) { return join(rank, join_body(rank)); }

inline Bytes join_ack(const RankSet& set, const JoinAck& body) {
  return control(put_join_ack, {.type = PacketType::kJoinAck, .job = kJob}, set, body);
}
inline Bytes leave(unsigned rank, std::uint64_t with_nonce) {
  return control(put_leave, {.type = PacketType::kLeave, .job = kJob},
                 RankSet::of(static_cast<Rank>(rank)), Leave{with_nonce});
}
inline Bytes status(const RankSet& set, const StatusMessage& body) {
  return control(put_status, {.type = PacketType::kStatus, .job = kJob}, set, body);
}

class Rig {
 public:
  explicit Rig(const SwitchConfig& with = config()) : node(with), secret(with.secret) {}

  // Feeds one packet and returns everything that the switch sends at once. A JOIN shows that its
  // sender receives at this address.
  std::vector<Sent> in(const Endpoint& from, const Bytes& bytes) {
    return in_as_is(from, proven(secret, from, bytes));
  }
  std::vector<Sent> in_as_is(const Endpoint& from, const Bytes& bytes) {
    node.handle_packet(now, from, kOwn, bytes, out_);
    return drain();
  }
  // Lets time pass and runs the timers that come due.
  std::vector<Sent> wait(Duration duration) {
    const Instant end = now + duration;
    while (node.next_timeout() <= end) {
      now = std::max(now, node.next_timeout());
      node.handle_timeout(now, out_);
    }
    now = end;
    return drain();
  }
  void join_all() {
    for (unsigned rank = 0; rank < 4; ++rank) enter(rank, child(rank));
  }
  // One rank joins.
  void enter(unsigned rank, const Endpoint& from) {
    in(from, join(rank));
    accept(rank, nonce(rank));
  }
  // The server's answer to the rank's JOIN comes down.
  std::vector<Sent> accept(unsigned rank, std::uint64_t with_nonce) {
    JoinAck ack = ack_body();
    ack.nonce = with_nonce;
    return in(kServer, join_ack(RankSet::of(static_cast<Rank>(rank)), ack));
  }
  std::uint64_t count(SwitchCounter counter) const { return node.counters()[counter]; }
  std::uint64_t drops() const { return drops_in(node.counters()); }

  SwitchNode node;
  HashKey secret;
  Instant now{1h};

 private:
  std::vector<Sent> drain() {
    std::vector<Sent> sent;
    for (const OutPacket& one : out_.packets()) {
      const auto bytes = out_.bytes_of(one);
      sent.push_back({one.to, {bytes.begin(), bytes.end()}});
    }
    out_.clear();
    return sent;
  }

  Outbox out_{256, 1 << 20};
};

// A packet as the next node gets it.
inline Bytes one_hop_on(Bytes bytes) {
  --bytes[ATP_AT_HOPS];
  return bytes;
}

inline std::vector<Endpoint> receivers(const std::vector<Sent>& sent) {
  std::vector<Endpoint> to;
  to.reserve(sent.size());
  for (const Sent& one : sent) to.push_back(one.to);
  return to;
}

// The JOIN that the switch passed on.
inline Join relayed(const std::vector<Sent>& sent) {
  EXPECT_EQ(receivers(sent), std::vector<Endpoint>{kServer});
  const auto body = Join::read(sent.at(0).view().body);
  EXPECT_TRUE(body.has_value());
  return body.value_or(Join{});
}

}  // namespace atp::rig
