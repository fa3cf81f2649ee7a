#include "atp/config/site/job_placement.h"

#include <algorithm>

#include "atp/base/rank_set.h"

namespace atp {
namespace {

Result<std::vector<std::uint32_t>> named_hosts(const Site& site,
                                               const std::vector<std::string>& names) {
  std::vector<std::uint32_t> hosts;
  for (const std::string& name : names) {
    if (name.empty()) {
      return Error{
          "found an empty name among the job's hosts; write them as a1,b1 with single commas"};
    }
    const Result<std::uint32_t> host = site.find_host(name);
    if (!host) return host.error();
    if (std::find(hosts.begin(), hosts.end(), host.value()) != hosts.end()) {
      return Error{"host " + name + " is listed twice in the job's hosts; name each once"};
    }
    hosts.push_back(host.value());
  }
  return hosts;
}

std::vector<std::uint32_t> hosts_with_ranks(const Site& site) {
  std::vector<std::uint32_t> hosts;
  for (std::uint32_t host = 0; host < site.hosts.size(); ++host) {
    if (site.hosts[host].ranks > 0) hosts.push_back(host);
  }
  return hosts;
}

}  // namespace

const PlacedRanks* JobPlacement::on_host(std::uint32_t host) const {
  for (const PlacedRanks& placed : hosts) {
    if (placed.host == host) return &placed;
  }
  return nullptr;
}

JobPlacement summed_on_hosts(JobPlacement placement) {
  for (PlacedRanks& placed : placement.hosts) placed.ranks = 1;
  return placement;
}

std::vector<std::string> names_in(std::string_view list) {
  std::vector<std::string> names;
  if (list.empty()) return names;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t comma = std::min(list.find(',', begin), list.size());
    names.emplace_back(list.substr(begin, comma - begin));
    begin = comma + 1;
  }
  return names;
}

Result<JobPlacement> place_job(const Site& site, const std::vector<std::string>& hosts,
                               std::uint32_t ranks_per_host) {
  const Result<std::vector<std::uint32_t>> chosen =
      hosts.empty() ? hosts_with_ranks(site) : named_hosts(site, hosts);
  if (!chosen) return chosen.error();
  JobPlacement placement;
  std::uint64_t world_size = 0;
  for (const std::uint32_t host : chosen.value()) {
    const std::uint32_t ranks = ranks_per_host > 0 ? ranks_per_host : site.hosts[host].ranks;
    if (ranks == 0) {
      return Error{site.hosts[host].place.text() + ": host " + site.hosts[host].name +
                   " has no ranks; give it `ranks` there, or use --ranks-per-host"};
    }
    placement.hosts.push_back({host, static_cast<std::uint32_t>(world_size), ranks});
    world_size += ranks;
  }
  if (world_size == 0) {
    return Error{site.place.text() + ": no host has ranks; give some of them `ranks`"};
  }
  if (world_size > kMaxRanks) {
    return Error{"the job has " + std::to_string(world_size) + " ranks, expected at most " +
                 std::to_string(kMaxRanks) + "; name fewer hosts"};
  }
  placement.world_size = static_cast<std::uint32_t>(world_size);
  return placement;
}

}  // namespace atp
