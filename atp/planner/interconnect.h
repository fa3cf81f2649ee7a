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

// A rate of bytes in ONE direction. Vendors quote NVLink as the sum of both directions and networks
// as one direction in bits; a type that cannot be made from a bare number by accident keeps the two
// from being compared, which paper §3.4 does in Fig. 7a (600 GB/s against 200 Gbit/s).

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

// Decimal prefixes, as networks and vendors use them.
constexpr BytesPerSecond gigabytes_per_second(double value) { return {value * 1e9}; }
constexpr BytesPerSecond gigabits_per_second(double value) { return {value * 1e9 / 8}; }

// An interconnect as a tree of identical levels, top to bottom: racks of hosts of devices. Every
// unit of a level has `count` children; the bottom level's children are the devices. This is
// what a person knows about a machine, and enough to say which link every byte of a collective
// crosses; irregular machines are described by an explicit point-to-point matrix or by measured
// bandwidths beside the levels.
//
// What a level's links are:
//   switch  every child has one link to the unit's switch, which never limits. All that leaves the
//           child, also for levels above, passes this link.
//   full    every two children have a link of their own.
//   pairs   the same for exactly two children (a bridge); a machine whose devices are joined
//           two by two has a level of count 2 below the level that joins the pairs.
//   ring    every child has a link to its next and to its previous sibling, and the last is next to
//           the first. Two children have one link.
//   torus   as ring, but every *device* inside a child has its own link to the device of the same
//           place in the sibling. Levels below a torus are torus levels (the other axes).
// Links of full, pairs, ring and torus carry only what their own children exchange: what goes to
// other units leaves through the levels above.

enum class LevelKind { kSwitch, kRing, kFull, kPairs, kTorus };

// Where the parameter servers that stand behind an aggregating switch run, that is, whose links
// carry the sums a second time.
enum class ServerPlacement {
  kDedicated,  // hosts of their own on the same switch
  kCoLocated,  // on the workers' machines, sharing their links
};

// In-network aggregation at one switch level (docs/protocol.md §4).
struct Aggregation {
  std::uint32_t slots = 0;          // aggregators of a switch; 0: never too few
  std::uint32_t window = 0;         // fragments one group has in flight; needed when slots > 0
  std::uint32_t payload_bytes = 1;  // of one packet; with header_bytes the framing factor
  std::uint32_t header_bytes = 0;   // all else a packet takes on the wire, Ethernet included
  // Bytes that one tensor value takes in a packet: 4 for int32, 2 for int16 with block scales.
  // 0: as many as the tensor's element.
  double wire_bytes_per_value = 0;
  ServerPlacement placement = ServerPlacement::kDedicated;
  // Of how many units of this level the servers sum the groups: the hosts of a rack, say, when all
  // racks have the servers in common.
  std::uint32_t shared_by = 1;
  // Sums that cross the fullest uplink of a unit in one direction, per group inside each unit: a
  // server that stands in another unit gets them, and gives them back, through it. 0: the servers
  // stand inside.
  double uplink_sums = 0;
  // How many machines serve under one switch. 0 means: dedicated, so many that no server's link
  // binds (or a switch that multicasts the sum itself); co-located, shards on every worker of a
  // group. Every group that runs at once loads the servers' links.
  std::uint32_t server_hosts = 0;
  // Of one dedicated server host, per direction; 0: as a child of this level.
  BytesPerSecond server_bandwidth{};
  // The part of the fragments that falls back to the servers, in [0, 1]; absent: computed from
  // slots, window and the number of groups as max(0, 1 - slots / (groups * window)).
  std::optional<double> fallback_share;

  bool operator==(const Aggregation&) const = default;
};

struct Level {
  std::string name;
  std::uint32_t count = 1;  // children of one unit
  LevelKind kind = LevelKind::kSwitch;
  BytesPerSecond bandwidth{};              // of one link, per direction
  double latency_s = 0;                    // one way between two children, all software included
  std::optional<Aggregation> aggregation;  // of kind switch only

  bool operator==(const Level&) const = default;
};

// A square matrix in row order: bandwidth[from * size + to] per direction; the diagonal is not
// read.
struct PointToPointMatrix {
  std::uint32_t size = 0;
  std::vector<BytesPerSecond> bandwidth;

  BytesPerSecond at(std::uint32_t from, std::uint32_t to) const {
    return bandwidth[std::size_t{from} * size + to];
  }
  bool operator==(const PointToPointMatrix&) const = default;
};

// What was measured on one mesh with all groups of a dimension running at once: the *algorithm*
// bandwidth, that is, the bytes of a rank's tensor over the seconds of one all-reduce (B1 and B2 of
// equation 2, not B1' and B2' of equation 3). A dimension of size 1 needs none.
struct MeasuredCollective {
  BytesPerSecond bandwidth{};
  double latency_s = 0;  // of one operation, whatever its size
  bool operator==(const MeasuredCollective&) const = default;
};

struct MeasuredDimension {
  MeasuredCollective all_reduce;
  // Absent: half of an all-reduce, or a whole one where switches sum.
  std::optional<MeasuredCollective> reduce_scatter;
  std::optional<MeasuredCollective> all_gather;
  bool operator==(const MeasuredDimension&) const = default;
};

struct MeasuredMesh {
  Mesh mesh;
  MeasuredDimension dimension1;
  MeasuredDimension dimension2;
  Collective algorithm = Collective::kMeasured;  // kMeasured: the file does not say
  bool operator==(const MeasuredMesh&) const = default;
};

// What one device computes. 0: unknown.
struct Device {
  double flops_per_second = 0;         // of matrix products
  double memory_bytes_per_second = 0;  // read or written by everything else
  bool operator==(const Device&) const = default;
};

struct Interconnect {
  std::string name;
  std::vector<Level> levels;                         // top to bottom
  std::optional<PointToPointMatrix> point_to_point;  // between devices, by position
  std::vector<MeasuredMesh> measured;                // used in place of the model, both modes
  Device device;
  // Of each device, counted through the levels, its rank in the job that is planned for; empty: the
  // same number. Costs do not depend on it.
  std::vector<std::uint32_t> job_ranks;

  bool operator==(const Interconnect&) const = default;
};

// The product of the counts.
std::uint64_t device_count(const Interconnect& interconnect);

// What one child of level `level` holds: the product of the counts below it.
std::uint64_t devices_per_child(const Interconnect& interconnect, std::size_t level);

// Says what cannot be planned for: no levels or more than kMaxLevels, a count of 0 or beyond
// kMaxDevices in all, a bandwidth that is not positive and finite, a negative latency, aggregation
// at a level without a switch, pairs of other than two, a level below a torus that is none, a
// matrix that does not fit.
Status validate(const Interconnect& interconnect);

inline constexpr std::uint64_t kMaxDevices = 1u << 20;
inline constexpr std::size_t kMaxLevels = 12;

const char* to_string(LevelKind kind);

}  // namespace atp::planner
