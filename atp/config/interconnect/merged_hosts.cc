#include "atp/config/interconnect/merged_hosts.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "atp/config/text/file.h"
#include "atp/config/text/plain_text.h"
#include "atp/config/text/quantity.h"

namespace atp {
namespace {

using planner::Level;
using planner::PointToPointMatrix;

constexpr double kUsualHost = 12.5e9;  // bytes per second
// The matrix of a thousand devices fills the largest file that is read.
constexpr std::size_t kMaxMatrix = 1024;

std::string gpus_text(std::size_t gpus) {
  return std::to_string(gpus) + (gpus == 1 ? " GPU" : " GPUs");
}

// "2 x NUMA node (switch), 4 x gpu (full)", with ", pair by pair" if the pairs differ.
std::string shape_text(const planner::Interconnect& machine) {
  std::string text;
  for (const Level& level : machine.levels) {
    text += (text.empty() ? "" : ", ") + std::to_string(level.count) + " x " + level.name + " (" +
            planner::to_string(level.kind) + ")";
  }
  return text + (machine.point_to_point ? ", pair by pair" : "");
}

bool same_shape(const planner::Interconnect& a, const planner::Interconnect& b) {
  return a.point_to_point.has_value() == b.point_to_point.has_value() &&
         std::equal(a.levels.begin(), a.levels.end(), b.levels.begin(), b.levels.end(),
                    [](const Level& x, const Level& y) {
                      return x.name == y.name && x.count == y.count && x.kind == y.kind;
                    });
}

void check_names(const std::vector<ImportedHost>& hosts) {
  std::map<std::string, const ImportedHost*> by_name;
  for (const ImportedHost& host : hosts) {
    const Place place{host.file, 0, ""};
    if (host.name.empty() || !is_plain(host.name)) {
      refuse(place, "the host name " + shown(host.name), "a name without control characters",
             "name it with --name HOST=FILE");
    }
    const auto [other, is_new] = by_name.emplace(host.name, &host);
    if (is_new) continue;
    throw FileError(place, "the host " + shown(host.name) + " occurs twice, also in " +
                               made_plain(other->second->file) +
                               "; remove one, or name the hosts with --name HOST=FILE");
  }
}

void check_equal(const std::vector<ImportedHost>& hosts) {
  const ImportedHost& first = hosts.front();
  constexpr const char* kAdvice =
      "the planner needs equal hosts: import only hosts of one kind, or from each only as many "
      "GPUs as all of them have";
  for (const ImportedHost& host : hosts) {
    const Place place{host.file, 0, ""};
    const std::string like = ", like " + made_plain(first.file);
    if (host.machine.gpus != first.machine.gpus) {
      refuse(place, gpus_text(host.machine.gpus), gpus_text(first.machine.gpus) + like, kAdvice);
    }
    if (!same_shape(host.machine.interconnect, first.machine.interconnect)) {
      refuse(place, shape_text(host.machine.interconnect),
             shape_text(first.machine.interconnect) + like, kAdvice);
    }
  }
}

// The lowest of the hosts' bandwidths, which is the one that counts. Adds a remark if they differ.
double slowest(const std::vector<ImportedHost>& hosts, const std::string& links,
               const std::vector<double>& bandwidths, std::vector<std::string>& remarks) {
  const auto [least, most] = std::minmax_element(bandwidths.begin(), bandwidths.end());
  if (*least < *most) {
    remarks.push_back("The links of " + links + " differ, from " + bandwidth_text(*least) + " (" +
                      hosts[static_cast<std::size_t>(least - bandwidths.begin())].name + ") to " +
                      bandwidth_text(*most) + " (" +
                      hosts[static_cast<std::size_t>(most - bandwidths.begin())].name +
                      "): the slowest counts.");
  }
  return *least;
}

// Between two hosts a pair has at most the hosts' link.
PointToPointMatrix merged_pairs(const std::vector<ImportedHost>& hosts, double host_bandwidth) {
  const std::size_t each = hosts.front().machine.gpus;
  const std::size_t all = each * hosts.size();
  if (all > kMaxMatrix) {
    refuse({hosts.front().file, 0, ""},
           std::to_string(all) + " GPUs whose pairs are described separately",
           "at most " + std::to_string(kMaxMatrix), "import fewer hosts");
  }
  PointToPointMatrix pairs{.size = static_cast<std::uint32_t>(all)};
  for (std::size_t from = 0; from < all; ++from) {
    for (std::size_t to = 0; to < all; ++to) {
      const PointToPointMatrix& own = *hosts[from / each].machine.interconnect.point_to_point;
      pairs.bandwidth.push_back(from / each == to / each
                                    ? own.at(static_cast<std::uint32_t>(from % each),
                                             static_cast<std::uint32_t>(to % each))
                                    : planner::BytesPerSecond{host_bandwidth});
    }
  }
  return pairs;
}

void add_new(const std::vector<std::string>& remarks, std::vector<std::string>& all) {
  for (const std::string& remark : remarks) {
    if (std::find(all.begin(), all.end(), remark) == all.end()) all.push_back(remark);
  }
}

std::string order_text(const std::string& order) {
  return "The order here differs from the GPUs' numbers: run with CUDA_VISIBLE_DEVICES=" + order;
}

Level host_level(const std::vector<ImportedHost>& hosts, double given,
                 std::vector<std::string>& remarks) {
  Level level{
      .name = "host", .count = static_cast<std::uint32_t>(hosts.size()), .bandwidth = {given}};
  if (given > 0) return level;
  std::vector<double> networks;
  networks.reserve(hosts.size());
  for (const ImportedHost& host : hosts) networks.push_back(host.machine.network);
  if (*std::min_element(networks.begin(), networks.end()) > 0) {
    level.bandwidth = {slowest(hosts, "hosts", networks, remarks)};
    remarks.emplace_back("A host's link has the combined bandwidth of its network cards.");
  } else {
    level.bandwidth = {kUsualHost};
    remarks.emplace_back(
        "The hosts' link is not in the files: 100 Gbit/s is typical. Replace it with yours.");
  }
  return level;
}

std::string names_text(const std::vector<ImportedHost>& hosts) {
  constexpr std::size_t kShown = 64;
  std::string text;
  for (std::size_t i = 0; i < std::min(hosts.size(), kShown); ++i) {
    text += (text.empty() ? "" : ",") + hosts[i].name;
  }
  if (hosts.size() > kShown) text += ",... of " + std::to_string(hosts.size());
  return "The hosts in the planner's order: " + text + ".";
}

Imported checked(Imported imported, const std::string& file) {
  const Status valid = planner::validate(imported.interconnect);
  if (!valid) throw FileError({file, 0, ""}, valid.error().message);
  return imported;
}

Imported single(const ImportedHost& host) {
  const ImportedMachine& machine = host.machine;
  if (machine.gpus < 2) refuse({host.file, 0, ""}, gpus_text(machine.gpus), "two or more");
  Imported imported{.interconnect = machine.interconnect, .remarks = {}};
  imported.interconnect.name =
      made_plain(host.name.empty() ? host.file.substr(host.file.find_last_of('/') + 1) : host.name);
  imported.remarks = {"Imported from " + made_plain(host.file) + ", " + machine.source + "."};
  add_new(machine.remarks, imported.remarks);
  if (!machine.order.empty()) imported.remarks.push_back(order_text(machine.order) + ".");
  return checked(std::move(imported), host.file);
}

Imported merged(const std::vector<ImportedHost>& hosts, double host_bandwidth) {
  check_names(hosts);
  check_equal(hosts);
  const ImportedHost& first = hosts.front();
  Imported imported{.interconnect = first.machine.interconnect, .remarks = {}};
  planner::Interconnect& cluster = imported.interconnect;
  cluster.name =
      std::to_string(hosts.size()) + " hosts with " + gpus_text(first.machine.gpus) + " each";
  imported.remarks = {"Imported from " + std::to_string(hosts.size()) +
                          " files, one per host: " + first.machine.source + ".",
                      names_text(hosts)};
  for (const ImportedHost& host : hosts) {
    add_new(host.machine.remarks, imported.remarks);
    if (host.machine.order.empty()) continue;
    imported.remarks.push_back(order_text(host.machine.order) + " on " + host.name + ".");
  }
  for (std::size_t i = 0; i < cluster.levels.size(); ++i) {
    std::vector<double> bandwidths;
    bandwidths.reserve(hosts.size());
    for (const ImportedHost& host : hosts) {
      bandwidths.push_back(host.machine.interconnect.levels[i].bandwidth.value);
    }
    Level& level = cluster.levels[i];
    level.bandwidth = {slowest(hosts, "level " + level.name, bandwidths, imported.remarks)};
  }
  const Level top = host_level(hosts, host_bandwidth, imported.remarks);
  if (cluster.point_to_point) cluster.point_to_point = merged_pairs(hosts, top.bandwidth.value);
  cluster.levels.insert(cluster.levels.begin(), top);
  return checked(std::move(imported), first.file);
}

}  // namespace

Result<Imported> imported_machine(const ImportedHost& host) {
  return read_or_error([&] { return single(host); });
}

Result<Imported> merged_hosts(const std::vector<ImportedHost>& hosts, double host_bandwidth) {
  return read_or_error([&] { return merged(hosts, host_bandwidth); });
}

}  // namespace atp
