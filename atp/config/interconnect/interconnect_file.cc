#include "atp/config/interconnect/interconnect_file.h"

#include <string>

#include "atp/config/interconnect/interconnect_reader.h"
#include "atp/config/interconnect/site_interconnect.h"
#include "atp/config/site/site_reader.h"
#include "atp/config/text/file.h"
#include "atp/config/text/plain_text.h"
#include "atp/config/text/quantity.h"
#include "atp/config/text/yaml.h"

namespace atp {
namespace {

using planner::Aggregation;
using planner::Interconnect;
using planner::Level;
using planner::PointToPointMatrix;
using planner::ServerPlacement;

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

// In double quotes whatever it holds, so that "yes", "2" and "a: b" stay text.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : made_plain(text)) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

std::string decimal(double value) {
  std::string text = std::to_string(value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

std::string aggregation_lines(const Aggregation& aggregation) {
  std::string text = "    aggregation:\n";
  const auto line = [&](const std::string& key, const std::string& value) {
    text += "      " + key + ": " + value + "\n";
  };
  line("payload_bytes", std::to_string(aggregation.payload_bytes));
  line("header_bytes", std::to_string(aggregation.header_bytes));
  if (aggregation.wire_bytes_per_value > 0) {
    line("wire_bytes_per_value", decimal(aggregation.wire_bytes_per_value));
  }
  if (aggregation.slots > 0) line("slots", std::to_string(aggregation.slots));
  if (aggregation.window > 0) line("window", std::to_string(aggregation.window));
  line("servers",
       aggregation.placement == ServerPlacement::kDedicated ? "dedicated" : "co-located");
  if (aggregation.shared_by > 1) line("shared_by", std::to_string(aggregation.shared_by));
  if (aggregation.uplink_sums > 0) line("uplink_sums", decimal(aggregation.uplink_sums));
  if (aggregation.server_hosts > 0) line("server_hosts", std::to_string(aggregation.server_hosts));
  if (aggregation.server_bandwidth.is_positive()) {
    line("server_bandwidth", bandwidth_text(aggregation.server_bandwidth.value));
  }
  if (aggregation.fallback_share) line("fallback_share", decimal(*aggregation.fallback_share));
  return text;
}

std::string level_lines(const Level& level) {
  std::string text = "  - name: " + quoted(level.name) + "\n";
  text += "    count: " + std::to_string(level.count) + "\n";
  text += "    kind: " + std::string(planner::to_string(level.kind)) + "\n";
  text += "    bandwidth: " + bandwidth_text(level.bandwidth.value) + "\n";
  if (level.latency_s > 0) text += "    latency: " + duration_text(level.latency_s) + "\n";
  if (level.aggregation) text += aggregation_lines(*level.aggregation);
  return text;
}

std::string matrix_lines(const PointToPointMatrix& matrix) {
  std::string text = "point_to_point:\n  unit: GB/s per direction\n  rows:\n";
  for (std::uint32_t from = 0; from < matrix.size; ++from) {
    text += "    - [";
    for (std::uint32_t to = 0; to < matrix.size; ++to) {
      text += (to == 0 ? "" : ", ") + decimal(from == to ? 0 : matrix.at(from, to).value / 1e9);
    }
    text += "]\n";
  }
  return text;
}

}  // namespace

Result<Cluster> parse_cluster(std::string_view text, const std::string& file) {
  return read_or_error([&] { return read(parse_yaml(text, file), file); });
}

Result<Cluster> read_cluster(const std::string& path) {
  const std::string name = input_name(path);
  return read_or_error([&] { return read(parse_yaml(read_text_file(path), name), name); });
}

Status check_world_size(const Cluster& cluster, std::uint32_t world_size) {
  const std::uint64_t devices = planner::device_count(cluster.interconnect);
  if (world_size == 0 || world_size == devices) return ok_status();
  return Error{cluster.levels.text() + ": found " + std::to_string(devices) +
               " devices, the product of the counts, expected " + std::to_string(world_size) +
               ", the number of workers; change one of the two"};
}

std::string cluster_text(const planner::Interconnect& interconnect,
                         const std::vector<std::string>& remarks) {
  std::string text;
  for (const std::string& remark : remarks) text += "# " + remark + "\n";
  if (!interconnect.name.empty()) text += "name: " + quoted(interconnect.name) + "\n";
  text += "levels:\n";
  for (const Level& level : interconnect.levels) text += level_lines(level);
  if (interconnect.point_to_point) text += matrix_lines(*interconnect.point_to_point);
  if (interconnect.measured.empty()) return text;
  text += "measured:\n";
  for (const planner::MeasuredMesh& measured : interconnect.measured) {
    text += "  - mesh: [" + std::to_string(measured.mesh.d1) + ", " +
            std::to_string(measured.mesh.d2) + "]\n";
    if (measured.dimension1.is_positive()) {
      text += "    dimension1: " + rate_text(measured.dimension1.value) + "\n";
    }
    if (measured.dimension2.is_positive()) {
      text += "    dimension2: " + rate_text(measured.dimension2.value) + "\n";
    }
  }
  return text;
}

}  // namespace atp
