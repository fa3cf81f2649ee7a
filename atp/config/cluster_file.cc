#include "atp/config/cluster_file.h"

#include <algorithm>

#include "atp/config/aggregation_reader.h"
#include "atp/config/matrix_reader.h"
#include "atp/config/quantity.h"
#include "atp/config/site_interconnect.h"
#include "atp/config/site_reader.h"
#include "atp/config/text_file.h"
#include "atp/config/yaml_reader.h"

namespace atp {
namespace {

using planner::Interconnect;
using planner::Level;
using planner::LevelKind;

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
  level.name = map.need("name", "what a child of this level is called").text("a name");
  const YamlValue count = map.need("count", "how many children one unit has");
  level.count = static_cast<std::uint32_t>(count.count(1, planner::kMaxDevices));
  const YamlValue kind = map.need("kind", "switch, ring, full, pairs or torus");
  level.kind = read_kind(kind);
  if (level.kind == LevelKind::kPairs && level.count != 2) {
    count.refuse("2, because a level of kind pairs joins two",
                 "write kind: full for more than two that are all joined");
  }
  level.bandwidth = {read_bandwidth(map.need("bandwidth", kBandwidthExpected))};
  if (const auto latency = map.find("latency")) level.latency_s = read_duration(*latency);
  if (const auto aggregation = map.find("aggregation")) {
    if (level.kind != LevelKind::kSwitch) {
      throw FileError(aggregation->place(),
                      "only a switch can aggregate, and this level's kind is " +
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
  throw FileError(place.place(),
                  "the level above is a torus, whose other axes follow below it; write kind: torus "
                  "here too, or kind: ring above");
}

// `sweep --count` and --bandwidth find a level by its name.
void check_name(const YamlValue& place, const std::vector<Level>& levels) {
  for (std::size_t above = 0; above + 1 < levels.size(); ++above) {
    if (levels[above].name != levels.back().name) continue;
    throw FileError(place.place(), "is called " + shown(levels.back().name) + " as levels[" +
                                       std::to_string(above) + "] is; give it a name of its own");
  }
}

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
      throw FileError(item.place(), "with this level there are " + std::to_string(devices) +
                                        " devices, and the planner takes at most " +
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

YamlMap cluster_map(const YamlNode& root, const std::string& file) {
  return YamlValue(root, {file, root.line, ""})
      .map({"name", "levels", "point_to_point", "measured", "links", "racks", "servers"},
           "a map with the key levels or racks");
}

// From `levels`, or where the file has only racks, from these.
void read_tree(const YamlMap& map, Cluster& cluster) {
  const auto racks = map.find("racks");
  const Site site = racks ? read_site(map) : Site();
  if (racks && !map.find("levels")) {
    cluster.interconnect = interconnect_of(site);
    cluster.levels = racks->place();
    return;
  }
  if (const auto name = map.find("name")) cluster.interconnect.name = name->text("a name");
  const YamlValue levels = map.need("levels", "a list of levels, from top to bottom");
  cluster.interconnect.levels = read_levels(levels);
  cluster.levels = levels.place();
}

Cluster read(const YamlNode& root, const std::string& file) {
  const YamlMap map = cluster_map(root, file);
  Cluster cluster;
  Interconnect& interconnect = cluster.interconnect;
  read_tree(map, cluster);
  const auto devices = static_cast<std::uint32_t>(planner::device_count(interconnect));
  if (const auto matrix = map.find("point_to_point")) {
    interconnect.point_to_point = read_matrix(*matrix, devices);
  }
  if (const auto measured = map.find("measured")) {
    interconnect.measured = read_measured(*measured, devices);
  }
  // What the planner requires beyond what the keys above were checked for.
  const Status valid = planner::validate(interconnect);
  if (!valid) throw FileError({file, 0, ""}, valid.error().message);
  return cluster;
}

}  // namespace

Result<Cluster> parse_cluster(std::string_view text, const std::string& file) {
  return read_or_error([&] { return read(parse_yaml(text, file), file); });
}

Result<Cluster> read_cluster(const std::string& path) {
  const std::string name = input_name(path);
  return read_or_error([&] { return read(parse_yaml(read_text_file(path), name), name); });
}

Result<Site> parse_site(std::string_view text, const std::string& file) {
  return read_or_error([&] {
    const YamlNode root = parse_yaml(text, file);
    return read_site(cluster_map(root, file));
  });
}

Result<Site> read_site_file(const std::string& path) {
  const std::string name = input_name(path);
  return read_or_error([&] {
    const YamlNode root = parse_yaml(read_text_file(path), name);
    return read_site(cluster_map(root, name));
  });
}

Status check_world_size(const Cluster& cluster, std::uint32_t world_size) {
  const std::uint64_t devices = planner::device_count(cluster.interconnect);
  if (world_size == 0 || world_size == devices) return ok_status();
  return Error{cluster.levels.text() + ": found " + std::to_string(devices) +
               " devices, the product of the counts, expected " + std::to_string(world_size) +
               ", the number of workers; change one of the two"};
}

}  // namespace atp
