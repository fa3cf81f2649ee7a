#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "atp/core/server/server.h"
#include "atp/core/topology/testing_proof.h"
#include "atp/wire/block_values.h"

// For the tests of this folder: a server, a clock that the test advances, packets as values, and
// the server's packets, decoded.

namespace atp {

inline constexpr JobKey kTestJob{11, 22};
inline constexpr std::uint32_t kTestOperation = 9;
inline constexpr std::uint32_t kTestIndex = 0x12345678;
inline constexpr Endpoint kTestServer = Endpoint::ipv4(10, 0, 0, 99, 5500);
inline constexpr Endpoint kTestSwitch = Endpoint::ipv4(10, 0, 0, 100, 5501);
inline constexpr Endpoint kStranger = Endpoint::ipv4(192, 0, 2, 1, 4444);

inline Endpoint worker_endpoint(Rank rank) {
  return Endpoint::ipv4(10, 0, static_cast<std::uint8_t>(1 + rank / 256),
                        static_cast<std::uint8_t>(rank), 7000);
}

inline RankSet ranks(std::initializer_list<int> list) {
  RankSet set;
  for (int r : list) set.insert(static_cast<Rank>(r));
  return set;
}

struct Sent {
  Endpoint to;
  atp_header header{};
  RankSet ranks;
  std::vector<std::uint8_t> body;

  PacketType type() const { return static_cast<PacketType>(header.type); }
  bool has(atp_packet_flag flag) const { return (header.flags & flag) != 0; }
  StatusMessage status() const {
    PacketView packet;
    packet.header = header;
    packet.ranks = ranks;
    packet.body = body;
    return StatusMessage::read(packet).value();
  }
  JoinAck ack() const { return JoinAck::read(body).value(); }
  std::vector<std::int32_t> values() const {
    std::vector<std::int32_t> result;
    for (std::size_t i = 0; i < body.size(); i += 4) {
      result.push_back(static_cast<std::int32_t>(atp_load32(body.data() + i)));
    }
    return result;
  }
  std::vector<float> floats() const {
    std::vector<float> result(body.size() / 4);
    read_floats(body.data(), result.size(), 1, DataType::kFloat32,
                reinterpret_cast<std::byte*>(result.data()));
    return result;
  }
};

struct TestGradient {
  std::uint64_t sequence = 0;
  RankSet ranks;
  std::vector<std::int32_t> values = {1, 2};
  std::uint8_t flags = 0;
  std::uint32_t operation = kTestOperation;
  std::uint32_t magnitude = 1;
  std::uint32_t index = kTestIndex;
  std::uint16_t stream = 0;
  JobKey job = kTestJob;
  std::uint8_t bitmap_words = 1;
  std::uint8_t kind = ATP_KIND_SUM_FIXED;
};

inline std::vector<std::uint8_t> bytes_of(const TestGradient& g) {
  atp_header h{};
  h.version = ATP_VERSION;
  h.type = ATP_GRADIENT;
  h.flags = g.flags;
  h.bitmap_words = g.bitmap_words;
  h.job = g.job.job;
  h.incarnation = g.job.incarnation;
  h.tenant = g.job.tenant;
  h.stream = g.stream;
  h.value_count = static_cast<std::uint16_t>(g.values.size());
  h.sequence = g.sequence;
  h.aggregator_index = g.index;
  h.operation = g.operation;
  h.magnitude = g.magnitude;
  h.kind = g.kind;
  h.hops = ATP_HOPS;
  std::vector<std::uint8_t> bytes(atp_packet_bytes(h.bitmap_words, h.kind, h.value_count));
  write_packet_head(bytes.data(), h, g.ranks);
  std::uint8_t* at = bytes.data() + atp_body_offset(h.bitmap_words);
  for (const std::int32_t value : g.values) {
    if (atp_value_bytes(h.kind) == 2) {
      atp_store16(at, static_cast<std::uint16_t>(value));
    } else {
      atp_store32(at, static_cast<std::uint32_t>(value));
    }
    at += atp_value_bytes(h.kind);
  }
  return bytes;
}

inline std::vector<std::int32_t> float_values(std::initializer_list<float> values) {
  std::vector<std::int32_t> result;
  for (float v : values) result.push_back(std::bit_cast<std::int32_t>(v));
  return result;
}

struct TestJoin {
  Rank rank = 0;
  std::uint8_t flags = 0;
  std::uint8_t bitmap_words = 1;
  JobKey job = kTestJob;
  Join body;
};

inline std::uint64_t nonce_of(Rank rank) { return 1000u + rank; }

class ServerHarness {
 public:
  explicit ServerHarness(const ServerConfig& config = small_config())
      : server(config), secret(config.secret) {}

  static ServerConfig small_config() {
    ServerConfig config;
    config.boot_id = 4242;
    config.secret = {3, 4};
    config.wmax = 8;
    config.max_value_count = 100;
    config.float_slots = 2;
    return config;
  }

  Server server;
  HashKey secret;
  Outbox out{4096};
  Outbox scratch{64};
  Instant now = Instant{std::chrono::seconds(100)};
  std::uint16_t stream_count = 1;  // of ranks that join from now on

  // The summary of the first stream range of the test's job.
  JobSummary summary() const {
    JobSummary result;
    server.for_each_job(now, [&](const JobSummary& s) {
      if (s.terms.key == kTestJob && s.terms.first_stream == 0) result = s;
    });
    return result;
  }
  std::uint64_t count(ServerCounter counter) const { return server.counters()[counter]; }

  // A JOIN shows that its sender receives at this address.
  void receive(const Endpoint& from, const std::vector<std::uint8_t>& bytes) {
    receive_as_is(from, proven(secret, from, bytes));
  }
  void receive_as_is(const Endpoint& from, const std::vector<std::uint8_t>& bytes) {
    server.handle_packet(now, from, kTestServer, bytes, out);
  }
  void gradient(const Endpoint& from, const TestGradient& g) { receive(from, atp::bytes_of(g)); }

  // Lets time pass and runs every timer when it is due.
  void advance(Duration duration) {
    const Instant end = now + duration;
    while (server.next_timeout() <= end) {
      now = std::max(now, server.next_timeout());
      server.handle_timeout(now, out);
    }
    now = end;
  }

  std::vector<Sent> take() {
    std::vector<Sent> result;
    for (const OutPacket& packet : out.packets()) {
      const ParsedPacket parsed = parse_packet(out.bytes_of(packet));
      const PacketView& view = parsed.view();
      result.push_back({packet.to, view.header, view.ranks, {view.body.begin(), view.body.end()}});
    }
    out.clear();
    return result;
  }
  std::vector<Sent> take(PacketType type) {
    std::vector<Sent> result = take();
    std::erase_if(result, [&](const Sent& s) { return s.type() != type; });
    return result;
  }
  std::vector<Sent> take(StatusCode code) {
    std::vector<Sent> result = take(PacketType::kStatus);
    std::erase_if(result, [&](const Sent& s) { return s.status().code != code; });
    return result;
  }

  TestJoin join_of(Rank rank, std::uint16_t world_size, bool behind_switch) const {
    TestJoin join;
    join.rank = rank;
    join.bitmap_words = bitmap_words_for(world_size);
    join.body.nonce = nonce_of(rank);
    join.body.world_size = world_size;
    join.body.first_stream = 0;
    join.body.stream_count = stream_count;
    join.body.max_value_count = 2;
    join.body.remaining.push_back(kTestServer);
    if (behind_switch) join.body.recorded.push_back(kTestSwitch);
    return join;
  }
  void join(const Endpoint& from, const TestJoin& join) { receive(from, bytes_of(join)); }
  std::vector<std::uint8_t> bytes_of(const TestJoin& join) {
    ControlHead head;
    head.type = PacketType::kJoin;
    head.flags = join.flags;
    head.bitmap_words = join.bitmap_words;
    head.job = join.job;
    head.stream = join.body.first_stream;
    scratch.clear();
    put_join(scratch, head, RankSet::of(join.rank), join.body);
    return written();
  }
  // Sends both of a worker's JOINs, as it repeats them.
  void join_rank(Rank rank, std::uint16_t world_size, bool behind_switch) {
    TestJoin one = join_of(rank, world_size, behind_switch);
    join(behind_switch ? kTestSwitch : worker_endpoint(rank), one);
    one.flags = ATP_FLAG_DIRECT;
    one.body.recorded.clear();
    join(worker_endpoint(rank), one);
  }
  void join_all(std::uint16_t world_size, bool behind_switch) {
    for (Rank r = 0; r < world_size; ++r) join_rank(r, world_size, behind_switch);
  }
  static ServerHarness behind_switch(std::uint16_t world_size,
                                     const ServerConfig& config = small_config()) {
    ServerHarness harness(config);
    harness.join_all(world_size, true);
    harness.out.clear();
    return harness;
  }
  static ServerHarness flat(std::uint16_t world_size) {
    ServerHarness harness;
    harness.join_all(world_size, false);
    harness.out.clear();
    return harness;
  }

  void leave(const Endpoint& from, Rank rank, std::uint64_t nonce, std::uint8_t flags = 0,
             std::string_view cause = {}) {
    ControlHead head;
    head.type = PacketType::kLeave;
    head.flags = flags;
    head.job = kTestJob;
    scratch.clear();
    put_leave(scratch, head, RankSet::of(rank), Leave{nonce, CauseText(cause)});
    receive(from, written());
  }
  // A rank's STATUS about the first fragment, straight to the server.
  void status(const Endpoint& from, Rank rank, const StatusMessage& message,
              std::uint32_t operation = kTestOperation) {
    ControlHead head;
    head.flags = ATP_FLAG_DIRECT;
    head.job = kTestJob;
    head.operation = operation;
    scratch.clear();
    put_status(scratch, head, RankSet::of(rank), message);
    receive(from, written());
  }

 private:
  std::vector<std::uint8_t> written() {
    scratch.send_to(kTestServer);
    const auto bytes = scratch.bytes_of(scratch.packets()[0]);
    return {bytes.begin(), bytes.end()};
  }
};

}  // namespace atp
