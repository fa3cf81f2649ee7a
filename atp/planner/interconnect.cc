#include "atp/planner/interconnect.h"

#include <cmath>
#include <tuple>

#include "atp/planner/text.h"

namespace atp::planner {
namespace {

bool is_rate(BytesPerSecond rate) { return rate.is_positive() && std::isfinite(rate.value); }

std::string rate_text(BytesPerSecond rate) { return number_text(rate.value) + " bytes/s"; }

Status check_aggregation(const Level& level, const std::string& where) {
  if (!level.aggregation) return ok_status();
  const Aggregation& aggregation = *level.aggregation;
  if (level.kind != LevelKind::kSwitch) {
    return Error{where + ": only a switch can aggregate, but the kind is " + to_string(level.kind) +
                 "; remove aggregation or make it a switch"};
  }
  if (aggregation.payload_bytes == 0) {
    return Error{where + ": aggregation needs a payload of at least 1 byte per packet, found 0"};
  }
  if (aggregation.shared_by == 0) {
    return Error{where + ": servers must serve at least 1 unit, found 0"};
  }
  if (!(aggregation.uplink_sums >= 0) || !std::isfinite(aggregation.uplink_sums)) {
    return Error{where + ": sums over an uplink must not be negative, found " +
                 number_text(aggregation.uplink_sums)};
  }
  if (aggregation.slots > 0 && aggregation.window == 0) {
    return Error{where + ": slots require window (fragments in flight per group)"};
  }
  if (!(aggregation.stream_share > 0 && aggregation.stream_share <= 1)) {
    return Error{where + ": the share of streams must be above 0 and at most 1, found " +
                 number_text(aggregation.stream_share)};
  }
  if (!(aggregation.wire_bytes_per_value >= 0) ||
      !std::isfinite(aggregation.wire_bytes_per_value)) {
    return Error{where + ": wire bytes per value must not be negative, found " +
                 number_text(aggregation.wire_bytes_per_value)};
  }
  if (aggregation.fallback_share &&
      !(*aggregation.fallback_share >= 0 && *aggregation.fallback_share <= 1)) {
    return Error{where + ": the fallback share must be in [0, 1], found " +
                 number_text(*aggregation.fallback_share)};
  }
  if (aggregation.server_bandwidth.value != 0 && !is_rate(aggregation.server_bandwidth)) {
    return Error{where + ": the servers' bandwidth must be positive, found " +
                 rate_text(aggregation.server_bandwidth)};
  }
  if (aggregation.switch_bandwidth.value != 0 && !is_rate(aggregation.switch_bandwidth)) {
    return Error{where + ": the bandwidth of the switch's host must be positive, found " +
                 rate_text(aggregation.switch_bandwidth)};
  }
  return ok_status();
}

Status check_level(const Level& level, std::size_t index, bool below_torus) {
  const std::string where = "level " + std::to_string(index + 1) + " " + quoted(level.name);
  if (level.count == 0) return Error{where + ": a unit needs at least 1 child, found 0"};
  if (!is_rate(level.bandwidth)) {
    return Error{where + ": the bandwidth of a link must be positive and finite, found " +
                 rate_text(level.bandwidth)};
  }
  if (!(level.latency_s >= 0) || !std::isfinite(level.latency_s)) {
    return Error{where + ": the latency must not be negative, found " +
                 number_text(level.latency_s) + " s"};
  }
  if (level.kind == LevelKind::kPairs && level.count != 2) {
    return Error{
        where + ": pairs have exactly 2 children, found " + std::to_string(level.count) +
        "; describe the pair as a level of count 2, and the links between pairs as a level "
        "above it"};
  }
  if (below_torus && level.kind != LevelKind::kTorus) {
    return Error{where +
                 ": below a torus level only torus levels (the other axes) are allowed, "
                 "found " +
                 to_string(level.kind) +
                 "; if one link connects whole units, their level is a ring"};
  }
  if (index == 0 && level.aggregation && level.aggregation->uplink_sums > 0) {
    return Error{where + ": the top level has no uplink, so its uplink sums must be 0, found " +
                 number_text(level.aggregation->uplink_sums)};
  }
  return check_aggregation(level, where);
}

Status check_matrix(const Interconnect& interconnect) {
  if (!interconnect.point_to_point) return ok_status();
  const PointToPointMatrix& matrix = *interconnect.point_to_point;
  const std::uint64_t devices = device_count(interconnect);
  if (matrix.size != devices ||
      matrix.bandwidth.size() != std::uint64_t{matrix.size} * matrix.size) {
    return Error{"the point-to-point matrix must have " + std::to_string(devices) + " rows of " +
                 std::to_string(devices) + " bandwidths, one per device; found " +
                 std::to_string(matrix.bandwidth.size()) + " values for " +
                 std::to_string(matrix.size) + " rows"};
  }
  for (std::uint32_t from = 0; from < matrix.size; ++from) {
    for (std::uint32_t to = 0; to < matrix.size; ++to) {
      const BytesPerSecond rate = matrix.at(from, to);
      if (from == to || rate.value == 0 || is_rate(rate)) continue;
      return Error{"the point-to-point bandwidth from device " + std::to_string(from) + " to " +
                   std::to_string(to) + " must not be negative, found " + rate_text(rate)};
    }
  }
  return ok_status();
}

// Checks one dimension with several ranks.
Status check_dimension(const MeasuredDimension& dimension, const std::string& where) {
  for (const MeasuredCollective& one :
       {dimension.all_reduce, dimension.reduce_scatter.value_or(dimension.all_reduce),
        dimension.all_gather.value_or(dimension.all_reduce)}) {
    if (!is_rate(one.bandwidth)) {
      return Error{"a positive bandwidth on " + where + ", found " + rate_text(one.bandwidth)};
    }
    if (!(one.latency_s >= 0) || !std::isfinite(one.latency_s)) {
      return Error{"a nonnegative latency on " + where + ", found " + number_text(one.latency_s) +
                   " s"};
    }
  }
  return ok_status();
}

Status check_measured(const Interconnect& interconnect) {
  for (const MeasuredMesh& measured : interconnect.measured) {
    const Mesh& mesh = measured.mesh;
    const std::string where = "the measurement of mesh " + mesh_text(mesh);
    if (mesh.d1 == 0 || mesh.d2 == 0 || mesh.size() != device_count(interconnect)) {
      return Error{where + " must have " + std::to_string(device_count(interconnect)) +
                   " devices, found " + std::to_string(mesh.size())};
    }
    for (const auto& [size, dimension_text, dimension] :
         {std::tuple{mesh.d1, "dimension 1", &measured.dimension1},
          {mesh.d2, "dimension 2", &measured.dimension2}}) {
      if (size == 1) continue;
      const Status status = check_dimension(*dimension, dimension_text);
      if (!status) return Error{where + " needs " + status.error().message};
    }
  }
  return ok_status();
}

}  // namespace

std::uint64_t device_count(const Interconnect& interconnect) {
  std::uint64_t devices = 1;
  for (const Level& level : interconnect.levels) {
    devices *= level.count;
    if (devices > kMaxDevices) return devices;  // refused by the caller, and cannot overflow yet
  }
  return devices;
}

std::uint64_t devices_per_child(const Interconnect& interconnect, std::size_t level) {
  std::uint64_t devices = 1;
  for (std::size_t below = level + 1; below < interconnect.levels.size(); ++below) {
    devices *= interconnect.levels[below].count;
  }
  return devices;
}

Status validate(const Interconnect& interconnect) {
  const auto& levels = interconnect.levels;
  if (levels.empty() || levels.size() > kMaxLevels) {
    return Error{"an interconnect needs 1 to " + std::to_string(kMaxLevels) + " levels, found " +
                 std::to_string(levels.size())};
  }
  bool below_torus = false;
  for (std::size_t index = 0; index < levels.size(); ++index) {
    if (Status status = check_level(levels[index], index, below_torus); !status) return status;
    below_torus |= levels[index].kind == LevelKind::kTorus;
  }
  if (device_count(interconnect) > kMaxDevices) {
    return Error{"the levels multiply to more than " + std::to_string(kMaxDevices) +
                 " devices; plan for the part that one tensor-parallel group uses"};
  }
  if (Status status = check_matrix(interconnect); !status) return status;
  return check_measured(interconnect);
}

}  // namespace atp::planner
