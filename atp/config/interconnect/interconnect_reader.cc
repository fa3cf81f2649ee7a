#include "atp/config/interconnect/interconnect_reader.h"

#include "atp/config/text/quantity.h"

namespace atp {
namespace {

using planner::Aggregation;
using planner::BytesPerSecond;
using planner::Level;
using planner::LevelKind;
using planner::MeasuredMesh;
using planner::PointToPointMatrix;
using planner::ServerPlacement;

constexpr int kMax = 1 << 30;

std::uint32_t read_count(const YamlMap& map, std::string_view key, int least,
                         std::uint32_t fallback) {
  const auto value = map.find(key);
  return value ? static_cast<std::uint32_t>(value->count(least, kMax)) : fallback;
}

double read_share(const YamlValue& value) {
  const double share = value.number("a number from 0 to 1");
  if (share < 0 || share > 1) value.refuse("a number from 0 to 1");
  return share;
}

double read_value_bytes(const YamlValue& value) {
  const double bytes = value.number("the bytes of one value, such as 4");
  if (bytes <= 0 || bytes > 64) value.refuse("a number above 0, at most 64");
  return bytes;
}

void read_servers(const YamlMap& map, Aggregation& aggregation) {
  if (const auto servers = map.find("servers")) {
    aggregation.placement = servers->one_of({"dedicated", "colocated"}) == "dedicated"
                                ? ServerPlacement::kDedicated
                                : ServerPlacement::kColocated;
  }
  aggregation.shared_by = read_count(map, "shared_by", 1, 1);
  if (const auto sums = map.find("uplink_sums")) {
    aggregation.uplink_sums = sums->number("a number of sums, 0 or more");
    if (!(aggregation.uplink_sums >= 0 && aggregation.uplink_sums <= planner::kMaxDevices)) {
      sums->refuse("a number of sums, 0 or more");
    }
  }
  aggregation.server_hosts = read_count(map, "server_hosts", 1, 0);
  if (const auto bandwidth = map.find("server_bandwidth")) {
    if (aggregation.placement == ServerPlacement::kColocated) {
      throw FileError(bandwidth->place(),
                      "colocated servers use their workers' links; remove the key, or write "
                      "servers: dedicated");
    }
    aggregation.server_bandwidth = {read_bandwidth(*bandwidth)};
  }
}

YamlMap map_of(const YamlValue& value) {
  return value.map({"payload_bytes", "header_bytes", "wire_bytes_per_value", "slots", "window",
                    "burst", "servers", "shared_by", "uplink_sums", "server_hosts",
                    "server_bandwidth", "switch_bandwidth", "stream_share", "fallback_share"},
                   "a map, {} for the defaults");
}

Aggregation read_aggregation(const YamlValue& value) {
  const YamlMap map = map_of(value);
  Aggregation aggregation;
  aggregation.payload_bytes = read_count(map, "payload_bytes", 1, aggregation.payload_bytes);
  aggregation.header_bytes = read_count(map, "header_bytes", 0, 0);
  if (const auto bytes = map.find("wire_bytes_per_value")) {
    aggregation.wire_bytes_per_value = read_value_bytes(*bytes);
  }
  aggregation.slots = read_count(map, "slots", 1, 0);
  aggregation.window = read_count(map, "window", 1, 0);
  aggregation.burst = read_count(map, "burst", 1, 0);
  if (aggregation.slots > 0 && aggregation.window == 0) {
    throw FileError(map.find("slots")->place(),
                    "slots require window, the number of fragments that one group has in "
                    "flight; add it");
  }
  if (aggregation.header_bytes > 0 && !map.find("payload_bytes")) {
    throw FileError(map.find("header_bytes")->place(),
                    "header_bytes requires payload_bytes; add it");
  }
  read_servers(map, aggregation);
  if (const auto bandwidth = map.find("switch_bandwidth")) {
    aggregation.switch_bandwidth = {read_bandwidth(*bandwidth)};
  }
  if (const auto share = map.find("stream_share")) {
    aggregation.stream_share = read_share(*share);
    if (aggregation.stream_share == 0) share->refuse("a number above 0, at most 1");
  }
  if (const auto share = map.find("fallback_share")) {
    aggregation.fallback_share = read_share(*share);
  }
  return aggregation;
}

// Refuses more colocated server hosts than there are devices under one such switch.
void check_server_hosts(const YamlValue& aggregation, std::uint64_t devices) {
  const auto hosts = map_of(aggregation).find("server_hosts");
  const bool too_many = read_aggregation(aggregation).server_hosts > devices;
  if (!too_many || read_aggregation(aggregation).placement == ServerPlacement::kDedicated) return;
  hosts->refuse("at most " + std::to_string(devices) +
                ", the number of devices under one switch, which run the colocated servers");
}

LevelKind read_kind(const YamlValue& value) {
  const std::string name = value.one_of({"switch", "ring", "full", "pairs", "torus"});
  if (name == "ring") return LevelKind::kRing;
  if (name == "full") return LevelKind::kFull;
  if (name == "pairs") return LevelKind::kPairs;
  return name == "torus" ? LevelKind::kTorus : LevelKind::kSwitch;
}

YamlMap level_map(const YamlValue& value) {
  return value.map({"name", "count", "kind", "bandwidth", "latency", "aggregation"},
                   "a level: {name, count, kind, bandwidth}");
}

Level read_level(const YamlValue& value) {
  const YamlMap map = level_map(value);
  Level level;
  level.name = map.need("name", "the name of a child of this level").text("a name");
  const YamlValue count = map.need("count", "the number of children per unit");
  level.count = static_cast<std::uint32_t>(count.count(1, planner::kMaxDevices));
  const YamlValue kind = map.need("kind", "switch, ring, full, pairs or torus");
  level.kind = read_kind(kind);
  if (level.kind == LevelKind::kPairs && level.count != 2) {
    count.refuse("2, because a level of kind pairs has two children",
                 "use kind: full for more than two that are all connected");
  }
  level.bandwidth = {read_bandwidth(map.need("bandwidth", kBandwidthExpected))};
  if (const auto latency = map.find("latency")) level.latency_s = read_duration(*latency);
  if (const auto aggregation = map.find("aggregation")) {
    if (level.kind != LevelKind::kSwitch) {
      throw FileError(aggregation->place(),
                      "only a switch can aggregate, but this level's kind is " +
                          std::string(planner::to_string(level.kind)) +
                          "; remove the key or write kind: switch");
    }
    level.aggregation = read_aggregation(*aggregation);
  }
  return level;
}

void check_torus(const YamlValue& place, const std::vector<Level>& levels) {
  if (levels.size() < 2 || levels[levels.size() - 2].kind != LevelKind::kTorus) return;
  if (levels.back().kind == LevelKind::kTorus) return;
  throw FileError(
      place.place(),
      "the level above is a torus, whose other axes must follow below it; use kind: torus "
      "here too, or kind: ring above");
}

// `sweep --count` and --bandwidth refer to levels by name.
void check_name(const YamlValue& place, const std::vector<Level>& levels) {
  for (std::size_t above = 0; above + 1 < levels.size(); ++above) {
    if (levels[above].name != levels.back().name) continue;
    throw FileError(place.place(), "is named " + shown(levels.back().name) + " like levels[" +
                                       std::to_string(above) + "]; give it a different name");
  }
}

// The unit of the matrix, in bytes per second per direction.
double read_unit(const YamlValue& value) {
  constexpr std::string_view kExpected = "a unit and a direction such as \"GB/s per direction\"";
  const Parsed parsed = parse_bandwidth("1 " + value.text(kExpected));
  if (!parsed.problem.empty()) value.refuse(kExpected, parsed.advice);
  return parsed.value;
}

BytesPerSecond read_cell(const YamlValue& value, double unit, bool diagonal) {
  const double number = value.number("a bandwidth, in the unit above");
  if (diagonal) return {0};
  const double bandwidth = number * unit;
  if (number <= 0 || bandwidth > 1e18) {
    value.refuse(
        "a bandwidth above 0, in the unit above",
        "for two devices without a direct link, use the bandwidth of the path between them");
  }
  return {bandwidth};
}

std::string square(std::uint32_t devices) {
  return std::to_string(devices) + " x " + std::to_string(devices);
}

// Reads {bandwidth, latency} of one collective.
planner::MeasuredCollective read_collective(const YamlMap& map) {
  planner::MeasuredCollective measured;
  measured.bandwidth = {read_rate(map.need("bandwidth", kRateExpected))};
  if (const auto latency = map.find("latency")) measured.latency_s = read_duration(*latency);
  return measured;
}

// Reads a rate, or separate values for all-reduce, reduce-scatter and all-gather.
planner::MeasuredDimension read_dimension(const YamlValue& value) {
  planner::MeasuredDimension dimension;
  if (!value.is_map()) {
    dimension.all_reduce.bandwidth = {read_rate(value)};
    return dimension;
  }
  const auto collective = [](const YamlValue& one) {
    return read_collective(one.map({"bandwidth", "latency"}, "{bandwidth, latency}"));
  };
  const YamlMap map = value.map({"all_reduce", "reduce_scatter", "all_gather"},
                                "a rate, or {all_reduce, reduce_scatter, all_gather}");
  dimension.all_reduce = collective(map.need("all_reduce", "{bandwidth, latency}"));
  if (const auto one = map.find("reduce_scatter")) dimension.reduce_scatter = collective(*one);
  if (const auto one = map.find("all_gather")) dimension.all_gather = collective(*one);
  return dimension;
}

planner::Collective read_algorithm(const YamlValue& value) {
  const std::string name = value.one_of({"ring", "gloo", "innetwork"});
  if (name == "ring") return planner::Collective::kRing;
  return name == "gloo" ? planner::Collective::kGloo : planner::Collective::kInNetwork;
}

std::uint32_t read_side(const YamlValue& value) {
  return static_cast<std::uint32_t>(value.count(1, planner::kMaxDevices));
}

}  // namespace

std::vector<Level> read_levels(const YamlValue& value) {
  std::vector<Level> levels;
  std::uint64_t devices = 1;
  const std::vector<YamlValue> items = value.list("a list of levels, from top to bottom");
  if (items.size() > planner::kMaxLevels) {
    refuse(value.place(), std::to_string(items.size()) + " levels",
           "at most " + std::to_string(planner::kMaxLevels));
  }
  for (const YamlValue& item : items) {
    levels.push_back(read_level(item));
    check_name(item, levels);
    check_torus(item, levels);
    devices *= levels.back().count;
    if (devices > planner::kMaxDevices) {
      throw FileError(item.place(), "found " + std::to_string(devices) +
                                        " devices up to this level, expected at most " +
                                        std::to_string(planner::kMaxDevices));
    }
  }
  if (levels.empty()) value.refuse("at least one level");
  for (std::size_t level = 0; level < levels.size(); ++level) {
    devices /= level == 0 ? 1 : levels[level - 1].count;
    if (!levels[level].aggregation) continue;
    check_server_hosts(*level_map(items[level]).find("aggregation"), devices);
  }
  return levels;
}

PointToPointMatrix read_matrix(const YamlValue& value, std::uint32_t devices) {
  const YamlMap map = value.map({"unit", "rows"}, "a map {unit, rows}");
  const double unit = read_unit(map.need("unit", "such as GB/s per direction"));
  const YamlValue rows_value = map.need("rows", "a list of " + std::to_string(devices) + " rows");
  const std::vector<YamlValue> rows = rows_value.list("a list of rows");
  const auto size_text = [](std::size_t size) { return std::to_string(size); };
  if (rows.size() != devices) {
    refuse(rows_value.place(), size_text(rows.size()) + " rows",
           size_text(devices) + ", because the matrix covers all devices of the levels");
  }
  PointToPointMatrix matrix{.size = devices};
  for (std::size_t from = 0; from < rows.size(); ++from) {
    const std::vector<YamlValue> cells = rows[from].list("a list of bandwidths");
    if (cells.size() != devices) {
      refuse(rows[from].place(), size_text(cells.size()) + " columns",
             size_text(devices) + ", because the matrix is square, " + square(devices));
    }
    for (std::size_t to = 0; to < cells.size(); ++to) {
      matrix.bandwidth.push_back(read_cell(cells[to], unit, from == to));
    }
  }
  return matrix;
}

planner::Device read_device(const YamlValue& value) {
  const YamlMap map = value.map({"products", "memory"}, "{products, memory}");
  planner::Device device;
  const YamlValue products = map.need("products", kSpeedExpected);
  device.flops_per_second = read_speed(products);
  if (const auto memory = map.find("memory")) device.memory_bytes_per_second = read_rate(*memory);
  return device;
}

std::vector<MeasuredMesh> read_measured(const YamlValue& value, std::uint32_t devices) {
  std::vector<MeasuredMesh> meshes;
  for (const YamlValue& item : value.list("a list of {mesh, dimension1, dimension2}")) {
    const YamlMap map = item.map({"mesh", "algorithm", "dimension1", "dimension2"},
                                 "{mesh, algorithm, dimension1, ...}");
    const YamlValue sides_value = map.need("mesh", "[d1, d2]");
    const std::vector<YamlValue> sides = sides_value.list("[d1, d2]");
    if (sides.size() != 2) sides_value.refuse("[d1, d2]");
    MeasuredMesh measured{.mesh = {read_side(sides[0]), read_side(sides[1])}};
    const std::string mesh_text =
        std::to_string(measured.mesh.d1) + " x " + std::to_string(measured.mesh.d2);
    if (measured.mesh.size() != devices) {
      refuse(sides_value.place(), mesh_text + " = " + std::to_string(measured.mesh.size()),
             "d1 x d2 = " + std::to_string(devices) + ", the devices of the levels");
    }
    if (const auto name = map.find("algorithm")) measured.algorithm = read_algorithm(*name);
    for (const MeasuredMesh& earlier : meshes) {
      if (earlier.mesh == measured.mesh && earlier.algorithm == measured.algorithm) {
        throw FileError(
            sides_value.place(),
            "the mesh " + mesh_text + " is listed twice with the same algorithm; remove one");
      }
    }
    const auto dimension = [&](std::string_view key,
                               std::uint32_t side) -> planner::MeasuredDimension {
      const auto given = map.find(key);
      if (!given && side == 1) return {};
      if (side == 1) {
        throw FileError(given->place(),
                        "a dimension of one rank has nothing to measure; remove the key");
      }
      return read_dimension(map.need(key, kRateExpected));
    };
    measured.dimension1 = dimension("dimension1", measured.mesh.d1);
    measured.dimension2 = dimension("dimension2", measured.mesh.d2);
    meshes.push_back(measured);
  }
  return meshes;
}

}  // namespace atp
