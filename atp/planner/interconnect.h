#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "atp/base/result.h"
#include "atp/planner/mesh.h"
#include "atp/planner/options.h"

// A rate in bytes in ONE direction. Vendors quote NVLink as the sum of both directions, and
// networks as one direction in bits. A type without an implicit conversion prevents comparing the
// two, as paper §3.4 does in Fig. 7a (600 GB/s against 200 Gbit/s).

namespace atp::planner {

struct BytesPerSecond {
  double value = 0;

  constexpr bool is_positive() const { return value > 0; }
  constexpr auto operator<=>(const BytesPerSecond&) const = default;
};

constexpr BytesPerSecond operator*(BytesPerSecond rate, double factor) {
  return {rate.value * factor};
}
constexpr BytesPerSecond operator/(BytesPerSecond rate, double divisor) {
  return {rate.value / divisor};
}

// Decimal prefixes, as vendors use them.
constexpr BytesPerSecond gigabytes_per_second(double value) { return {value * 1e9}; }
constexpr BytesPerSecond gigabits_per_second(double value) { return {value * 1e9 / 8}; }

// An interconnect as a tree of regular levels, top to bottom: racks of hosts of devices. Every unit
// of a level has `count` children; the bottom level's children are the devices. That is what people
// know about a machine, and enough to tell which links every byte of a collective crosses.
// Irregular machines add an explicit point-to-point matrix or measured bandwidths to the levels.
//
// The links of a level, by kind:
//   switch  every child has one link to the unit's switch, which is never the bottleneck. All that
//           leaves the child, also for levels above, crosses this link.
//   full    any two children have a direct link.
//   pairs   the same for exactly two children (a bridge). A machine whose devices are connected in
//           pairs has a level of count 2 below the level that connects the pairs.
//   ring    every child has a link to its next and to its previous sibling, and the last is the
//           first one's neighbour. Two children have one link.
//   torus   like ring, but every *device* inside a child has its own link to the corresponding
//           device of the sibling. Levels below a torus are torus levels (the other axes).
// The links of full, pairs, ring and torus carry only traffic between their own children; traffic
// to other units uses the levels above.

enum class LevelKind { kSwitch, kRing, kFull, kPairs, kTorus };

// Where the parameter servers behind an aggregating switch run, and so whose links carry the sums a
// second time.
enum class ServerPlacement {
  kDedicated,  // on separate hosts at the same switch
  kColocated,  // on the workers' machines, sharing their links
};

// In-network aggregation at one switch level (docs/inside/protocol §4).
struct Aggregation {
  std::uint32_t slots = 0;          // aggregators per switch; 0: unlimited
  std::uint32_t window = 0;         // fragments in flight per group; required if slots > 0
  std::uint32_t payload_bytes = 1;  // per packet; with header_bytes the framing factor
  std::uint32_t header_bytes = 0;   // everything else per packet on the wire, Ethernet included
  // Bytes per tensor value in a packet: 4 for int32, 2 for int16 with block scales. 0: the size of
  // the tensor's element.
  double wire_bytes_per_value = 0;
  ServerPlacement placement = ServerPlacement::kDedicated;
  // How many units of this level share the servers: all racks, for example, if the level's switches
  // are the racks' switches.
  std::uint32_t shared_by = 1;
  // Sums that cross the fullest of the units' uplinks in each direction, if every unit has one
  // group: its own unit's on their way to servers elsewhere, or other units' on their way to
  // servers inside. 0: every unit has its servers inside.
  double uplink_sums = 0;
  // Server hosts under one switch. 0 means, if dedicated, enough that no server's link is the
  // bottleneck (or a switch that multicasts the sum itself); if colocated, one on every worker of
  // a group. All groups load the servers' links at the same time.
  std::uint32_t server_hosts = 0;
  // Per dedicated server host and direction; 0: that of a child of this level.
  BytesPerSecond server_bandwidth{};
  // The link of the host on which each of the level's switches runs as a program, per direction:
  // all that the switch receives and sends crosses it. 0: the switch is never the bottleneck, as in
  // hardware.
  BytesPerSecond switch_bandwidth{};
  // Fragments that each rank sends before results return: the largest window (`atp server
  // --window`), if queues are deep enough that no loss cuts it. Counts where the link of a switch's
  // host is the bottleneck (aggregation_load.cc). 0: few.
  std::uint32_t burst = 0;
  // The part of a link's bandwidth that the rings' streams get for data. With header_bytes the
  // bandwidth is that of packets; without it a ring's headers would not count.
  double stream_share = 1;
  // The share of fragments that fall back to the servers, in [0, 1]; absent: computed from slots,
  // window and the number of groups as max(0, 1 - slots / (groups * window)).
  std::optional<double> fallback_share;

  bool operator==(const Aggregation&) const = default;
};

struct Level {
  std::string name;
  std::uint32_t count = 1;  // children per unit
  LevelKind kind = LevelKind::kSwitch;
  BytesPerSecond bandwidth{};              // per link and direction
  double latency_s = 0;                    // one way between two children, software included
  std::optional<Aggregation> aggregation;  // only for kind switch

  // What rings get of it.
  BytesPerSecond of_streams() const {
    return aggregation ? bandwidth * aggregation->stream_share : bandwidth;
  }
  bool operator==(const Level&) const = default;
};

// A square matrix in row order: bandwidth[from * size + to] per direction; the diagonal is ignored.
struct PointToPointMatrix {
  std::uint32_t size = 0;
  std::vector<BytesPerSecond> bandwidth;

  BytesPerSecond at(std::uint32_t from, std::uint32_t to) const {
    return bandwidth[std::size_t{from} * size + to];
  }
  bool operator==(const PointToPointMatrix&) const = default;
};

// A measurement on one mesh with all groups of a dimension running at once: the *algorithm*
// bandwidth, which is a rank's tensor bytes over the seconds of one all-reduce (B1 and B2 of
// equation 2, not B1' and B2' of equation 3). A dimension of size 1 needs none.
struct MeasuredCollective {
  BytesPerSecond bandwidth{};
  double latency_s = 0;  // per operation of any size
  bool operator==(const MeasuredCollective&) const = default;
};

struct MeasuredDimension {
  MeasuredCollective all_reduce;
  // Absent: half of an all-reduce, or a whole one if switches sum.
  std::optional<MeasuredCollective> reduce_scatter;
  std::optional<MeasuredCollective> all_gather;
  bool operator==(const MeasuredDimension&) const = default;
};

struct MeasuredMesh {
  Mesh mesh;
  MeasuredDimension dimension1;
  MeasuredDimension dimension2;
  Collective algorithm = Collective::kMeasured;  // kMeasured: not in the file
  bool operator==(const MeasuredMesh&) const = default;
};

// The speed of one device. 0: unknown.
struct Device {
  double flops_per_second = 0;         // for matrix products
  double memory_bytes_per_second = 0;  // for everything else, read or written
  bool operator==(const Device&) const = default;
};

struct Interconnect {
  std::string name;
  std::vector<Level> levels;                         // top to bottom
  std::optional<PointToPointMatrix> point_to_point;  // between devices, by position
  std::vector<MeasuredMesh> measured;                // replace the model, in both modes
  Device device;
  // The job's rank of each device, in the order of the levels; empty: the device's number. Costs do
  // not depend on it.
  std::vector<std::uint32_t> job_ranks;

  bool operator==(const Interconnect&) const = default;
};

// The product of the counts.
std::uint64_t device_count(const Interconnect& interconnect);

// The devices in one child of level `level`: the product of the counts below it.
std::uint64_t devices_per_child(const Interconnect& interconnect, std::size_t level);

// Refuses an interconnect that cannot be planned for: no levels or more than kMaxLevels, a count of
// 0, more than kMaxDevices in total, a bandwidth that is not positive and finite, a negative
// latency, aggregation without a switch, pairs with a count other than two, another kind below a
// torus, a matrix of the wrong size.
Status validate(const Interconnect& interconnect);

inline constexpr std::uint64_t kMaxDevices = 1u << 20;
inline constexpr std::size_t kMaxLevels = 12;

const char* to_string(LevelKind kind);

}  // namespace atp::planner
