#include "atp/config/interconnect/interconnect_file.h"

#include <string>

#include "atp/config/interconnect/interconnect_reader.h"
#include "atp/config/interconnect/site_interconnect.h"
#include "atp/config/site/job_placement.h"
#include "atp/config/site/site_reader.h"
#include "atp/config/text/file.h"
#include "atp/config/text/yaml.h"

namespace atp {
namespace {

using planner::Interconnect;

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

}  // namespace atp
