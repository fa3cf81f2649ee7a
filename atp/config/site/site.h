#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "atp/base/result.h"
#include "atp/config/site/job_weights.h"
#include "atp/config/text/file.h"

// The racks, hosts, switches and servers of a cluster file (docs/use/cluster.md) as plain values.
// `atp run --cluster` starts them, the simulator simulates them, and the planner derives its levels
// from them. Hosts, racks and servers are identified by index.

namespace atp {

// The maximum number of servers per job, counting each lane.
inline constexpr std::uint32_t kMaxServers = 64;

struct SiteLink {
  double bandwidth = 0;  // bytes per second per direction; 0: not in the file
  double latency_s = 0;  // one way
};

struct SiteHost {
  std::string name;
  std::string address;  // in the form of inet_ntop()
  std::uint32_t rack = 0;
  std::uint32_t ranks = 0;  // that a job starts here by default
  SiteLink link;            // to the rack's network
  Place place;
};

struct SiteSwitch {
  std::uint32_t host = 0;
  std::uint16_t port = 0;
  // 0: the program's default
  std::uint32_t aggregators = 0;
  std::uint32_t partition = 0;
  std::uint32_t quota = 0;
  std::uint32_t places = 0;
  Place place;
};

struct SiteRack {
  std::string name;
  std::optional<std::uint32_t> above;  // the rack at the other end of its uplink; absent: the core
  SiteLink uplink;
  std::optional<SiteSwitch> switch_node;
  Place place;
};

struct SiteServer {
  std::uint32_t host = 0;
  std::uint16_t port = 0;
  std::uint32_t window = 0;  // 0: the program's default
  std::uint32_t lease = 0;   // in seconds; 0: likewise
  Place place;
};

struct Site {
  std::string name;
  std::vector<SiteRack> racks;
  std::vector<SiteHost> hosts;
  std::vector<SiteServer> servers;                // over which every tensor is spread
  SiteLink rank_link;                             // between the ranks of one host
  std::uint32_t lanes = 1;                        // per switch and server, on consecutive ports
  std::optional<std::vector<JobWeight>> weights;  // absent: the file has no key `jobs`
  Place place;

  // The index of the host with this name; the error lists the names.
  Result<std::uint32_t> find_host(std::string_view host_name) const;
  // The only host whose address is one of this machine's, according to `is_own`.
  Result<std::uint32_t> find_own_host(
      const std::function<bool(const std::string& address)>& is_own) const;
};

// "10.0.0.1:5500" or "[fd00::1]:5500"; with lanes "10.0.0.1:5500-5503"
std::string endpoint_text(const std::string& address, std::uint16_t port, std::uint32_t lanes = 1);

// Refuses a link without a bandwidth, for callers that need it. `kind` is the default link's:
// "host" or "rack".
void check_bandwidth(const SiteLink& link, const Place& place, std::string_view kind);

// Refuses racks whose uplinks form a cycle.
void check_uplinks(const Site& site);

// Refuses switches or servers that share an address and port, and ports above 65535.
void check_ports(const Site& site);

}  // namespace atp
