#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "atp/base/result.h"
#include "atp/config/text/file.h"

// The racks, hosts, switches and servers that a cluster file lists (docs/cluster.md), as plain
// values: what `atp run --cluster` starts, what the simulator plays, and from which the planner's
// levels follow. Hosts, racks and servers are known by their index here.

namespace atp {

// Over which the tensors of a job are spread; those of each lane count.
inline constexpr std::uint32_t kMaxServers = 64;

struct SiteLink {
  double bandwidth = 0;  // bytes per second in one direction; 0: the file does not say
  double latency_s = 0;  // one way
};

struct SiteHost {
  std::string name;
  std::string address;  // as inet_ntop() writes it
  std::uint32_t rack = 0;
  std::uint32_t ranks = 0;  // that a job starts here unless told otherwise
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
  Place place;
};

struct SiteRack {
  std::string name;
  std::optional<std::uint32_t> above;  // the rack that its uplink leads to; absent: the core
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
  std::vector<SiteServer> servers;  // over which every tensor is spread
  SiteLink rank_link;               // between the ranks of one host
  std::uint32_t lanes = 1;          // of each switch and server, at its port and those after it
  Place place;

  // The host of this name; the error has the names that there are.
  Result<std::uint32_t> find_host(std::string_view host_name) const;
};

// "10.0.0.1:5500" or "[fd00::1]:5500"; with lanes "10.0.0.1:5500-5503"
std::string endpoint_text(const std::string& address, std::uint16_t port, std::uint32_t lanes = 1);

// Refuses a link whose bandwidth the file does not say, as who reckons with it must. `kind` is that
// of the usual links: "host" or "rack".
void check_bandwidth(const SiteLink& link, const Place& place, std::string_view kind);

// Refuses racks whose uplinks run in a circle.
void check_uplinks(const Site& site);

// Refuses two switches or servers with one address and port, and ports beyond the last.
void check_ports(const Site& site);

}  // namespace atp
