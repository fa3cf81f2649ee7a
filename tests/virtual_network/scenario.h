#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>
#include <optional>

#include "atp/sim/world.h"
#include "atp/wire/status.h"

// What the named scenarios share: small plans to start from, and predicates on packets.

namespace atp::sim {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

// One job of `world_size` workers behind one switch, K = 4, Wmax = 4, whose operations have the
// given numbers of values.
inline Plan small_plan(std::uint16_t world_size, std::initializer_list<std::uint64_t> counts) {
  Plan plan;
  plan.switch_config.aggregators = 64;
  plan.switch_config.max_value_count = 8;
  plan.switch_config.max_trees = 16;
  plan.server_config.wmax = 4;
  plan.server_config.max_jobs = 16;
  JobPlan job;
  job.world_size = world_size;
  for (const std::uint64_t count : counts) {
    OperationPlan operation;
    operation.spec.count = count;
    job.operations.push_back(operation);
  }
  plan.jobs.push_back(job);
  return plan;
}

// Many operations of the same length, `think` apart.
inline Plan steady_plan(std::uint16_t world_size, std::size_t operations, std::uint64_t count,
                        Duration think_max) {
  Plan plan = small_plan(world_size, {});
  OperationPlan operation;
  operation.spec.count = count;
  plan.jobs[0].operations.assign(operations, operation);
  plan.jobs[0].think_max = think_max;
  plan.server_config.wmax = 16;
  return plan;
}

inline bool is(const Packet& packet, PacketType type) {
  return packet.bytes.size() >= ATP_HEADER_BYTES &&
         packet.bytes[ATP_AT_TYPE] == static_cast<std::uint8_t>(type);
}
inline bool has(const Packet& packet, atp_packet_flag flag) {
  return packet.bytes.size() >= ATP_HEADER_BYTES && (packet.bytes[ATP_AT_FLAGS] & flag) != 0;
}
inline std::uint64_t sequence_of(const Packet& packet) {
  return atp_load64(packet.bytes.data() + ATP_AT_SEQUENCE);
}
inline std::optional<StatusMessage> status_of(const Packet& packet) {
  const ParsedPacket parsed = parse_packet(packet.bytes);
  if (!parsed.ok() || parsed.view().type() != PacketType::kStatus) return std::nullopt;
  return StatusMessage::read(parsed.view());
}

// Expects everything to complete within the plan's bound with the right sums, with nothing left
// over.
inline void expect_all_done(World& world) {
  EXPECT_TRUE(world.run_to_completion()) << world.unfinished();
  world.check_release();
  world.check_departure();
  EXPECT_THAT(world.violations(), testing::IsEmpty()) << describe(world.plan());
}

}  // namespace atp::sim
