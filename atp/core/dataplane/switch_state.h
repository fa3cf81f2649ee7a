#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "atp/base/siphash.h"
#include "atp/core/answer_pacer.h"
#include "atp/core/dataplane/aggregator_table.h"
#include "atp/core/dataplane/switch_counter.h"
#include "atp/core/dataplane/tree_table.h"
#include "atp/core/tenant.h"
#include "atp/core/timing.h"
#include "atp/core/topology/upstream.h"
#include "atp/core/turn.h"

// What the parts of a switch share: its configuration, its whole state as plain data, and the turn.

namespace atp {

struct SwitchConfig {
  std::uint32_t aggregators = 16384;
  std::uint16_t max_value_count = 350;  // K is lowered to this; also the size of an aggregator
  // A single packet from a stranger can make a tree, so the number of trees (jobs × stream ranges)
  // and the memory that they may take together, besides the aggregators, are bounded.
  std::uint32_t max_trees = 1024;
  std::size_t tree_memory_bytes = std::size_t{64} << 20;
  std::uint32_t places = kMostPlaces;  // of a fragment, at most; 1: only its home
  SharingConfig sharing;
  const Quotas* quotas = nullptr;  // null: no keys, and so no tenants; all jobs weigh the same
  UpstreamPolicy upstream;
  // The rate of the uplink, for ECN; 0: unknown, no packet is marked here.
  std::uint64_t uplink_bits_per_s = 0;
  Duration ecn_threshold = std::chrono::milliseconds(1);
  std::uint64_t seed = 1;
  HashKey secret{};  // of proofs; nobody else knows it
  Timing timing;

  bool operator==(const SwitchConfig&) const = default;
};

// The queue that a link of a given rate would have, because a switch in user space cannot see the
// real one (docs/inside/protocol §4). It holds no packets: the bytes sent drain by the clock, so
// the time at which it will be empty is its whole state. It marks and never delays; rate 0 never
// marks. Like a real queue it is finite, so that even hours of overload are soon forgotten.
class VirtualQueue {
 public:
  // Marks packets that would wait longer than `threshold`.
  VirtualQueue(std::uint64_t bits_per_s, Duration threshold)
      : bits_per_s_(bits_per_s), threshold_(threshold) {}

  // A UDP payload of this many bytes leaves now. Returns whether to mark it.
  bool send(Instant now, std::size_t bytes) {
    if (bits_per_s_ == 0) return false;
    const std::uint64_t wire_bits = (bytes + kOverheadBytes) * 8;
    const Duration sending(wire_bits * 1'000'000'000 / bits_per_s_);
    empty_at_ = std::min(std::max(empty_at_, now), now + kThresholds * threshold_) + sending;
    return empty_at_ - now > threshold_;
  }

  bool operator==(const VirtualQueue&) const = default;

 private:
  // Preamble, Ethernet, IPv4, UDP, checksum and gap.
  static constexpr std::size_t kOverheadBytes = 66;
  static constexpr int kThresholds = 16;  // its capacity, not counting the last packet

  std::uint64_t bits_per_s_;
  Duration threshold_;
  Instant empty_at_{};
};

struct SwitchState {
  explicit SwitchState(const SwitchConfig& from_config)
      : config(from_config),
        aggregators(config.aggregators, config.max_value_count),
        trees(config.max_value_count, Shares(config.sharing, config.aggregators)),
        uplink(config.uplink_bits_per_s, config.ecn_threshold),
        pacer(config.timing.answer_pause, config.seed) {}

  PlaceFound find(const atp_share& share, const atp_header& header) const {
    return aggregators.find(share, config.places, header);
  }
  // The home of what an aggregator holds; null if its job has no tree, and so no region, any more.
  atp_aggregator* home_of_held(std::uint32_t slot) {
    const atp_aggregator& a = aggregators[slot];
    const atp_share& share = trees.shares().region(a.share);
    if (share.size == 0 || !trees.shares().has_trees(a.share)) return nullptr;
    return &aggregators[atp_home(&share, a.aggregator_index, a.identity.tenant)];
  }
  // Runs a step of the pipeline on an aggregator and updates how many its job holds.
  template <class Step>
  atp_verdict decide(std::uint32_t slot, Step&& step) {
    atp_aggregator& aggregator = aggregators[slot];
    const bool was_held = aggregator.state == ATP_AGGREGATING;
    const Shares::Id holder = aggregator.share;
    const atp_verdict verdict = step(aggregator);
    const bool is_held = aggregator.state == ATP_AGGREGATING;
    if (was_held != is_held) aggregators.note_held(slot, is_held);
    if (was_held && !is_held) trees.shares().note_release(holder);
    if (!was_held && is_held) trees.shares().note_claim(aggregator.share);
    return verdict;
  }

  SwitchConfig config;
  AggregatorTable aggregators;
  TreeTable trees;
  VirtualQueue uplink;
  bool congested = false;  // the switch's own receive queue is long
  bool draining = false;   // JOINs of unknown jobs are refused
  AnswerPacer pacer;
  Counters<SwitchCounter> counters;

  bool operator==(const SwitchState&) const = default;
};

struct SwitchTurn : Turn<SwitchConfig, SwitchCounter> {
  SwitchState& state;
};

}  // namespace atp
