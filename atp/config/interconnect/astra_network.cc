#include "atp/config/interconnect/astra_network.h"

#include <algorithm>

#include "atp/config/text/plain_text.h"
#include "atp/config/text/quantity.h"
#include "atp/config/text/yaml.h"

namespace atp {
namespace {

using planner::Level;
using planner::LevelKind;

// The four lists, of equal length: one entry per dimension.
struct Dimensions {
  std::vector<YamlValue> topology;
  std::vector<YamlValue> npus;
  std::vector<YamlValue> bandwidth;
  std::vector<YamlValue> latency;
};

std::vector<YamlValue> read_list(const YamlMap& map, std::string_view key, std::size_t size) {
  const std::string expected = "a list with one entry per dimension";
  const YamlValue value = map.need(key, expected);
  std::vector<YamlValue> list = value.list(expected);
  if (list.empty() || (size > 0 && list.size() != size)) {
    refuse(value.place(), std::to_string(list.size()) + " entries",
           size == 0 ? "one per dimension" : std::to_string(size) + ", one per entry of topology");
  }
  return list;
}

LevelKind kind_of_topology(const YamlValue& value) {
  const std::string name = value.one_of({"Ring", "FullyConnected", "Switch"});
  if (name == "Ring") return LevelKind::kRing;
  return name == "Switch" ? LevelKind::kSwitch : LevelKind::kFull;
}

double read_positive(const YamlValue& value, double unit, double most, std::string_view expected) {
  const double number = value.number(expected);
  if (number <= 0 || number * unit > most) value.refuse(expected);
  return number * unit;
}

double read_latency(const YamlValue& value) {
  constexpr std::string_view kExpected = "nanoseconds, 0 or more";
  const double number = value.number(kExpected);
  if (number < 0 || number > 1e12) value.refuse(kExpected);
  return number * 1e-9;
}

std::string ordinal_name(std::size_t dimension) {
  return dimension == 0 ? "npu" : "group of dimension " + std::to_string(dimension);
}

Level read_level(const Dimensions& dimensions, std::size_t at, std::uint64_t inside) {
  Level level;
  level.name = ordinal_name(at);
  level.kind = kind_of_topology(dimensions.topology[at]);
  level.count = static_cast<std::uint32_t>(dimensions.npus[at].count(1, planner::kMaxDevices));
  // In ASTRA-sim's analytical network 1 GB is 2^30 B.
  level.bandwidth = {read_positive(dimensions.bandwidth[at], 0x1p30, 1e18, "GB/s above 0")};
  level.latency_s = read_latency(dimensions.latency[at]);
  // A torus level has the bandwidth of one device's link, every other level that of a whole
  // child's.
  level.bandwidth = level.bandwidth * static_cast<double>(inside);
  return level;
}

// Rings from the innermost dimension on are the axes of a torus.
void make_torus(std::vector<Level>& innermost_first) {
  const auto end = std::find_if(innermost_first.begin(), innermost_first.end(),
                                [](const Level& level) { return level.kind != LevelKind::kRing; });
  if (end - innermost_first.begin() < 2) return;
  double inside = 1;
  for (auto level = innermost_first.begin(); level != end; ++level) {
    level->kind = LevelKind::kTorus;
    level->bandwidth = level->bandwidth / inside;
    inside *= level->count;
  }
}

Imported read(const YamlNode& root, const std::string& file) {
  const YamlMap map = YamlValue(root, {file, root.line, ""})
                          .map({"topology", "npus_count", "bandwidth", "latency"},
                               "a map with topology, npus_count, bandwidth and latency");
  Dimensions dimensions;
  dimensions.topology = read_list(map, "topology", 0);
  const std::size_t size = dimensions.topology.size();
  dimensions.npus = read_list(map, "npus_count", size);
  dimensions.bandwidth = read_list(map, "bandwidth", size);
  dimensions.latency = read_list(map, "latency", size);

  std::vector<Level> levels;
  std::uint64_t inside = 1;
  for (std::size_t at = 0; at < size; ++at) {
    levels.push_back(read_level(dimensions, at, inside));
    inside *= levels.back().count;
    if (inside > planner::kMaxDevices) {
      throw FileError(dimensions.npus[at].place(),
                      "found " + std::to_string(inside) +
                          " NPUs up to this dimension, expected at most " +
                          std::to_string(planner::kMaxDevices));
    }
  }
  make_torus(levels);
  std::reverse(levels.begin(), levels.end());

  Imported imported;
  imported.interconnect = {.name = made_plain(file.substr(file.find_last_of('/') + 1)),
                           .levels = levels};
  imported.remarks = {
      "Imported from the ASTRA-sim network " + made_plain(file) + ".",
      "GB/s means 2^30 bytes per second, per link and direction, as in ASTRA-sim's analytical "
      "network."};
  if (size > 1) {
    imported.remarks.emplace_back(
        "ASTRA-sim gives every NPU its own links in each dimension. Here a link of an upper level");
    imported.remarks.emplace_back("has the combined bandwidth of the links of all NPUs below it.");
  }
  const Status valid = planner::validate(imported.interconnect);
  if (!valid) throw FileError({file, 0, ""}, valid.error().message);
  return imported;
}

}  // namespace

Result<Imported> import_astra_network(std::string_view text, const std::string& file) {
  return read_or_error([&] { return read(parse_yaml(text, file), file); });
}

}  // namespace atp
