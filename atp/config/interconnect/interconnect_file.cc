#include "atp/config/interconnect/interconnect_file.h"

#include <string>

#include "atp/config/interconnect/interconnect_reader.h"
#include "atp/config/interconnect/site_interconnect.h"
#include "atp/config/site/job_placement.h"
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

// The hosts with ranks, rack by rack, in the order of the levels.
std::vector<std::uint32_t> hosts_by_rack(const Site& site) {
  std::vector<std::uint32_t> hosts;
  for (std::uint32_t rack = 0; rack < site.racks.size(); ++rack) {
    for (std::uint32_t host = 0; host < site.hosts.size(); ++host) {
      if (site.hosts[host].rack == rack && site.hosts[host].ranks > 0) hosts.push_back(host);
    }
  }
  return hosts;
}

// Removes the ranks of hosts outside the part. Returns the job's rank of each device.
std::vector<std::uint32_t> take_part(Site& site, const ClusterPart& part) {
  const Result<JobPlacement> placed = place_job(site, part.hosts, part.ranks_per_host);
  if (!placed) throw FileError(site.place, placed.error().message);
  for (SiteHost& host : site.hosts) host.ranks = 0;
  for (const PlacedRanks& each : placed.value().hosts) site.hosts[each.host].ranks = each.ranks;
  std::vector<std::uint32_t> ranks;
  for (const std::uint32_t host : hosts_by_rack(site)) {
    const PlacedRanks& own = *placed.value().on_host(host);
    for (std::uint32_t rank = 0; rank < own.ranks; ++rank) {
      ranks.push_back(own.first_rank + rank);
    }
  }
  return ranks;
}

// Reads `levels`, or derives them from the racks if there are none or a part is requested.
void read_tree(const YamlMap& map, const ClusterPart& part, Cluster& cluster) {
  const auto racks = map.find("racks");
  Site site = racks ? read_site(map) : Site();
  std::vector<std::uint32_t> job_ranks;
  if (!part.is_whole()) {
    if (!racks) {
      throw FileError(map.place(),
                      "has no racks, which planning for part of the hosts requires; list them "
                      "(docs/use/cluster.md), or write levels for just that part");
    }
    job_ranks = take_part(site, part);
  }
  if (racks && (!map.find("levels") || !part.is_whole())) {
    cluster.interconnect = interconnect_of(site);
    cluster.interconnect.job_ranks = std::move(job_ranks);
    cluster.levels = racks->place();
    return;
  }
  if (const auto name = map.find("name")) cluster.interconnect.name = name->text("a name");
  const YamlValue levels = map.need("levels", "a list of levels, from top to bottom");
  cluster.interconnect.levels = read_levels(levels);
  cluster.levels = levels.place();
}

Cluster read(const YamlNode& root, const std::string& file, const ClusterPart& part) {
  const YamlMap map = cluster_map(root, file);
  Cluster cluster;
  Interconnect& interconnect = cluster.interconnect;
  read_tree(map, part, cluster);
  const auto devices = static_cast<std::uint32_t>(planner::device_count(interconnect));
  if (const auto matrix = map.find("point_to_point"); matrix && part.is_whole()) {
    interconnect.point_to_point = read_matrix(*matrix, devices);
  }
  if (const auto measured = map.find("measured"); measured && part.is_whole()) {
    interconnect.measured = read_measured(*measured, devices);
  }
  if (const auto device = map.find("device")) interconnect.device = read_device(*device);
  // The planner has requirements beyond the checks above.
  const Status valid = planner::validate(interconnect);
  if (!valid) throw FileError({file, 0, ""}, valid.error().message);
  return cluster;
}

// Always in double quotes, so that "yes", "2" and "a: b" stay text.
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
  if (aggregation.burst > 0) line("burst", std::to_string(aggregation.burst));
  line("servers", aggregation.placement == ServerPlacement::kDedicated ? "dedicated" : "colocated");
  if (aggregation.shared_by > 1) line("shared_by", std::to_string(aggregation.shared_by));
  if (aggregation.uplink_sums > 0) line("uplink_sums", decimal(aggregation.uplink_sums));
  if (aggregation.server_hosts > 0) line("server_hosts", std::to_string(aggregation.server_hosts));
  if (aggregation.server_bandwidth.is_positive()) {
    line("server_bandwidth", bandwidth_text(aggregation.server_bandwidth.value));
  }
  if (aggregation.switch_bandwidth.is_positive()) {
    line("switch_bandwidth", bandwidth_text(aggregation.switch_bandwidth.value));
  }
  if (aggregation.stream_share != 1) line("stream_share", decimal(aggregation.stream_share));
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

std::string device_lines(const planner::Device& device) {
  std::string text = "device:\n  products: " + speed_text(device.flops_per_second) + "\n";
  if (device.memory_bytes_per_second > 0) {
    text += "  memory: " + rate_text(device.memory_bytes_per_second) + "\n";
  }
  return text;
}

std::string dimension_text(const planner::MeasuredDimension& dimension) {
  const auto collective = [](const char* name, const planner::MeasuredCollective& one) {
    return std::string(name) + ": {bandwidth: " + rate_text(one.bandwidth.value) +
           ", latency: " + duration_text(one.latency_s) + "}";
  };
  const bool is_rate =
      dimension.all_reduce.latency_s == 0 && !dimension.reduce_scatter && !dimension.all_gather;
  if (is_rate) return rate_text(dimension.all_reduce.bandwidth.value);
  std::string text = "{" + collective("all_reduce", dimension.all_reduce);
  if (dimension.reduce_scatter) {
    text += ", " + collective("reduce_scatter", *dimension.reduce_scatter);
  }
  if (dimension.all_gather) text += ", " + collective("all_gather", *dimension.all_gather);
  return text + "}";
}

std::string measured_lines(const planner::MeasuredMesh& measured) {
  std::string text = "  - mesh: [" + std::to_string(measured.mesh.d1) + ", " +
                     std::to_string(measured.mesh.d2) + "]\n";
  if (measured.algorithm != planner::Collective::kMeasured) {
    text += "    algorithm: " + std::string(planner::to_string(measured.algorithm)) + "\n";
  }
  if (measured.mesh.d1 > 1) {
    text += "    dimension1: " + dimension_text(measured.dimension1) + "\n";
  }
  if (measured.mesh.d2 > 1) {
    text += "    dimension2: " + dimension_text(measured.dimension2) + "\n";
  }
  return text;
}

}  // namespace

Result<Cluster> parse_cluster(std::string_view text, const std::string& file,
                              const ClusterPart& part) {
  return read_or_error([&] { return read(parse_yaml(text, file), file, part); });
}

Result<Cluster> read_cluster(const std::string& path, const ClusterPart& part) {
  const std::string name = input_name(path);
  return read_or_error([&] { return read(parse_yaml(read_text_file(path), name), name, part); });
}

Status check_ranks(const Cluster& cluster, std::uint32_t ranks) {
  const std::uint64_t devices = planner::device_count(cluster.interconnect);
  if (ranks == 0 || ranks == devices) return ok_status();
  return Error{cluster.levels.text() + ": found " + std::to_string(devices) +
               " devices (the product of the counts), expected " + std::to_string(ranks) +
               ", the number of ranks; change one of the two"};
}

std::string cluster_text(const planner::Interconnect& interconnect,
                         const std::vector<std::string>& remarks) {
  std::string text;
  for (const std::string& remark : remarks) text += "# " + remark + "\n";
  if (!interconnect.name.empty()) text += "name: " + quoted(interconnect.name) + "\n";
  text += "levels:\n";
  for (const Level& level : interconnect.levels) text += level_lines(level);
  if (interconnect.point_to_point) text += matrix_lines(*interconnect.point_to_point);
  if (interconnect.device.flops_per_second > 0) text += device_lines(interconnect.device);
  if (interconnect.measured.empty()) return text;
  text += "measured:\n";
  for (const planner::MeasuredMesh& measured : interconnect.measured) {
    text += measured_lines(measured);
  }
  return text;
}

}  // namespace atp
