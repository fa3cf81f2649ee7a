#pragma once

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "atp/core/worker/worker.h"

// One worker in a scripted world: the test plays switch and server, and time is a number.

namespace atp {

inline constexpr Endpoint kTestSwitch = Endpoint::ipv4(10, 0, 0, 1, 5501);
inline constexpr Endpoint kTestServer = Endpoint::ipv4(10, 0, 0, 9, 5500);

class VectorTensors final : public Tensors {
 public:
  std::map<OperationId, std::vector<float>> data;
  std::map<OperationId, BlockLayout> layouts;
  std::map<OperationId, std::vector<std::int16_t>> agreed;
  std::span<const std::byte> input(OperationId id) override { return output(id); }
  std::span<std::byte> output(OperationId id) override {
    return std::as_writable_bytes(std::span(data.at(id)));
  }
  const BlockLayout& layout(OperationId id) override { return layouts.at(id); }
  std::span<std::int16_t> exponents(OperationId id) override { return agreed.at(id); }
};

struct SentPacket {
  Endpoint to;
  std::vector<std::uint8_t> bytes;
  PacketView view() const { return parse_packet(bytes).view(); }
};

inline std::vector<SentPacket> of_type(const std::vector<SentPacket>& sent, PacketType type) {
  std::vector<SentPacket> found;
  for (const SentPacket& packet : sent) {
    if (packet.view().type() == type) found.push_back(packet);
  }
  return found;
}
inline std::vector<SentPacket> gradients(const std::vector<SentPacket>& sent) {
  return of_type(sent, PacketType::kGradient);
}
inline std::vector<SentPacket> joins(const std::vector<SentPacket>& sent) {
  return of_type(sent, PacketType::kJoin);
}

class WorkerScript {
 public:
  static constexpr std::uint64_t kNonce = 77;
  static constexpr std::uint16_t kValues = 4;

  explicit WorkerScript(WorkerConfig config = default_config()) : worker(config) {}

  static WorkerConfig default_config() {
    WorkerConfig config;
    config.job = {1, 2};
    config.rank = 1;
    config.world_size = 3;
    config.nonce = kNonce;
    config.max_value_count = kValues;
    config.route.push_back(kTestSwitch);
    config.route.push_back(kTestServer);
    config.max_operations = 64;
    return config;
  }

  void advance(Duration by) { now += by; }

  // Runs the loop once: timers, transmissions; returns and clears what was sent.
  std::vector<SentPacket> run() {
    if (now >= worker.next_timeout()) worker.handle_timeout(now, tensors, out);
    worker.poll_transmit(now, tensors, out);
    return take();
  }
  std::vector<SentPacket> take() {
    std::vector<SentPacket> sent;
    for (const OutPacket& packet : out.packets()) {
      const auto bytes = out.bytes_of(packet);
      sent.push_back({packet.to, {bytes.begin(), bytes.end()}});
    }
    out.clear();
    return sent;
  }
  // Runs until the next timer and fires it.
  std::vector<SentPacket> run_to_timer() {
    now = std::max(now, worker.next_timeout());
    return run();
  }

  void deliver(const Endpoint& from) {
    const auto sent = take();
    for (const SentPacket& packet : sent) {
      worker.handle_packet(now, from, packet.bytes, tensors, out);
    }
  }

  void receive(const Outbox& message, const Endpoint& from) {
    for (const OutPacket& packet : message.packets()) {
      worker.handle_packet(now, from, message.bytes_of(packet), tensors, out);
    }
  }

  ControlHead head(PacketType type, std::uint8_t flags = 0) const {
    return {.type = type, .flags = flags, .bitmap_words = 1, .job = {1, 2}};
  }
  JoinAck ack() const {
    JoinAck ack;
    ack.nonce = kNonce;
    ack.server_boot_id = 5;
    ack.scale = 100;
    ack.lease_ms = 5000;
    ack.wmax = 4;
    ack.value_count = kValues;
    ack.world_size = 3;
    ack.stream_count = 1;
    return ack;
  }
  void receive_ack(const JoinAck& body, const Endpoint& from) {
    Outbox message;
    put_join_ack(message, head(PacketType::kJoinAck, from == kTestServer ? ATP_FLAG_DIRECT : 0),
                 RankSet::of(1), body);
    message.send_to(from);
    receive(message, from);
  }
  void receive_status(const StatusMessage& body, const Endpoint& from, std::uint64_t sequence = 0,
                      std::uint32_t operation = 0, std::uint16_t stream = 0) {
    Outbox message;
    ControlHead h = head(PacketType::kStatus, from == kTestServer ? ATP_FLAG_DIRECT : 0);
    h.stream = stream;
    h.sequence = sequence;
    h.operation = operation;
    put_status(message, h, RankSet::of(1), body);
    message.send_to(from);
    receive(message, from);
  }
  // Answers a sent GRADIENT with these sums, as many as it has values.
  void answer(const SentPacket& gradient, const std::vector<std::int32_t>& sums,
              const Endpoint& from = kTestSwitch, std::uint8_t flags = 0,
              std::uint32_t next_index = 0) {
    std::vector<std::uint8_t> bytes = gradient.bytes;
    atp_header h = gradient.view().header;
    h.type = ATP_PARAMETER;
    h.flags = flags;
    h.next_index = next_index == 0 ? h.aggregator_index : next_index;
    write_packet_head(bytes.data(), h, RankSet::first(3));
    bytes[ATP_AT_PART] = part;
    for (std::size_t i = 0; i < std::min<std::size_t>(sums.size(), h.value_count); ++i) {
      atp_store32(bytes.data() + atp_body_offset(1) + 4 * i, static_cast<std::uint32_t>(sums[i]));
    }
    worker.handle_packet(now, from, bytes, tensors, out);
  }
  // Answers with the contribution itself as the sum.
  void echo(const SentPacket& gradient) {
    std::vector<std::uint8_t> bytes = gradient.bytes;
    atp_header h = gradient.view().header;
    h.type = ATP_PARAMETER;
    h.flags &= ATP_FLAG_FLOAT;
    write_packet_head(bytes.data(), h, RankSet::first(3));
    worker.handle_packet(now, kTestSwitch, bytes, tensors, out);
  }
  void nack(const SentPacket& gradient, std::uint8_t flags) {
    atp_header h = gradient.view().header;
    h.type = ATP_NACK;
    h.flags = flags;
    h.value_count = 0;
    Outbox message;
    put_bare(message, h, RankSet::of(1));
    message.send_to(kTestSwitch);
    receive(message, kTestSwitch);
  }

  // Joins through the tree and empties the outbox.
  void join() { join(ack()); }
  void join(const JoinAck& agreement) {
    worker.start(now);
    run();
    receive_ack(agreement, kTestServer);
    receive_ack(agreement, kTestSwitch);
    const auto event = worker.poll_event();
    ASSERT_TRUE(event.has_value());
    ASSERT_EQ(event->kind, EventKind::kJoined);
    run();
  }
  OperationId submit(std::vector<float> values, Reduction reduction = Reduction::kSum) {
    return submit(std::move(values), OperationSpec{.reduction = reduction});
  }
  OperationId submit(std::vector<float> values, OperationSpec spec) {
    spec.count = values.size();
    const OperationId id = worker.submit(now, spec).value_or(kNoOperation);
    EXPECT_NE(id, kNoOperation);
    tensors.layouts[id] = BlockLayout(values.size());
    tensors.agreed[id].resize(tensors.layouts[id].blocks());
    tensors.data[id] = std::move(values);
    return id;
  }

  std::uint8_t part = 0;  // that answers say
  Instant now{std::chrono::seconds(1)};
  VectorTensors tensors;
  Outbox out;
  Worker worker;
};

}  // namespace atp
