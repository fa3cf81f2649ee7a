#pragma once

#include <chrono>
#include <cstdint>

#include "atp/core/answer_pacer.h"
#include "atp/core/dataplane/aggregator_table.h"
#include "atp/core/dataplane/switch_counter.h"
#include "atp/core/dataplane/tree_table.h"
#include "atp/core/dataplane/virtual_queue.h"
#include "atp/core/outbox.h"
#include "atp/core/timing.h"
#include "atp/core/topology/upstream.h"

// What the parts of a switch share: its whole state, plain data, and the packet at hand.

namespace atp {

struct SwitchConfig {
  std::uint32_t aggregators = 16384;
  std::uint16_t max_value_count = 350;  // K is lowered to this; also the size of an aggregator
  // A single packet of a stranger may make a tree, so their number (jobs × stream ranges known at a
  // time) and what they may take together, beside the aggregators, are bounded.
  std::uint32_t max_trees = 1024;
  std::size_t tree_memory_bytes = std::size_t{64} << 20;
  SharingConfig sharing;
  UpstreamPolicy upstream;
  // The rate of the link upward, for ECN; 0: unknown, no packet is marked here.
  std::uint64_t uplink_bits_per_s = 0;
  Duration ecn_threshold = std::chrono::milliseconds(1);
  std::uint64_t seed = 1;
  Timing timing;

  bool operator==(const SwitchConfig&) const = default;
};

struct SwitchState {
  explicit SwitchState(const SwitchConfig& from_config)
      : config(from_config),
        aggregators(config.aggregators, config.max_value_count),
        trees(config.max_value_count, Shares(config.sharing, config.aggregators)),
        uplink(config.uplink_bits_per_s, config.ecn_threshold),
        pacer(config.timing.answer_pause, config.seed) {}

  // Runs a step of the pipeline on an aggregator, and counts what its job holds.
  template <class Step>
  atp_verdict decide(std::uint32_t slot, Step&& step) {
    atp_aggregator& aggregator = aggregators[slot];
    const bool was_held = aggregator.state == ATP_AGGREGATING;
    const Shares::Id holder = aggregator.share;
    const atp_verdict verdict = step(aggregator);
    const bool is_held = aggregator.state == ATP_AGGREGATING;
    if (was_held && !is_held) trees.shares().note_release(holder);
    if (!was_held && is_held) trees.shares().note_claim(aggregator.share);
    return verdict;
  }

  SwitchConfig config;
  AggregatorTable aggregators;
  TreeTable trees;
  VirtualQueue uplink;
  bool congested = false;  // the switch's own receive queue grows
  AnswerPacer pacer;
  Counters<SwitchCounter> counters;

  bool operator==(const SwitchState&) const = default;
};

// A parsed packet on its way through the switch.
struct Arrival {
  Instant now;
  const Endpoint& from;
  const PacketView& packet;
  Outbox& out;
};

}  // namespace atp
