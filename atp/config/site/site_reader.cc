#include "atp/config/site/site_reader.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <optional>
#include <vector>

#include "atp/base/rank_set.h"
#include "atp/config/site/routes.h"
#include "atp/config/text/quantity.h"
#include "atp/config/text/words.h"

namespace atp {
namespace {

constexpr std::uint16_t kServerPort = 5500;  // a switch's port follows those of the server's lanes
constexpr int kMaxAggregators = 1 << 24;
constexpr int kMaxPlaces = 16;
constexpr int kMaxWindow = 65536;
constexpr int kMinLease = 3;  // seconds
constexpr int kMaxLease = 3600;
constexpr std::size_t kMaxRacks = 1024;
constexpr std::size_t kMaxHosts = 8192;
constexpr std::string_view kCore = "core";
constexpr std::string_view kUplinkExpected =
    "the other end of the rack's uplink: core, or the rack above it";

using AddressBytes = std::array<unsigned char, sizeof(in6_addr)>;

bool can_be_a_hosts(const in_addr& address) {
  const in_addr_t number = ntohl(address.s_addr);
  return number != INADDR_ANY && number != INADDR_BROADCAST && !IN_MULTICAST(number);
}

// A link-local address needs a scope, which the protocol's endpoints do not have. An IPv4-mapped
// address would be a second spelling of an IPv4 address.
bool can_be_a_hosts(const in6_addr& address) {
  return !IN6_IS_ADDR_UNSPECIFIED(&address) && !IN6_IS_ADDR_MULTICAST(&address) &&
         !IN6_IS_ADDR_LINKLOCAL(&address) && !IN6_IS_ADDR_V4MAPPED(&address);
}

template <class Address>
bool can_be_a_hosts(const AddressBytes& bytes) {
  Address address{};
  std::memcpy(&address, bytes.data(), sizeof address);
  return can_be_a_hosts(address);
}

// The IPv4 or IPv6 address of a host in the form of inet_ntop(), so that equal addresses are equal
// strings.
std::string read_address(const YamlValue& value) {
  const std::string expected = "an IPv4 or IPv6 address, without a port";
  const std::string text = value.text(expected);
  AddressBytes bytes{};
  std::array<char, INET6_ADDRSTRLEN> written{};
  for (const int family : {AF_INET, AF_INET6}) {
    if (inet_pton(family, text.c_str(), bytes.data()) != 1) continue;
    if (!(family == AF_INET ? can_be_a_hosts<in_addr>(bytes) : can_be_a_hosts<in6_addr>(bytes))) {
      value.refuse("an address at which the other hosts reach this one",
                   "not a wildcard, multicast, link-local or IPv4-mapped address");
    }
    return inet_ntop(family, bytes.data(), written.data(), written.size());
  }
  value.refuse(expected);
}

// Words with the place of their first use.
class UniqueWords {
 public:
  // Refuses a word that was added before; the message ends with the advice.
  void add(const std::string& word, const Place& place, const char* advice) {
    const auto [first, is_new] = first_.emplace(word, place);
    if (is_new) return;
    throw FileError(place, shown(word) + " is already used by " + first->second.key + " (line " +
                               std::to_string(first->second.line) + "); " + advice);
  }

 private:
  std::map<std::string, Place> first_;
};

// The default links by kind. A host's or rack's own link may omit either value.
struct DefaultLinks {
  SiteLink host, rack, rank;
};

// The map's `bandwidth` and `latency`, each with the default if absent.
SiteLink read_link(const YamlMap& map, const SiteLink& otherwise) {
  SiteLink link = otherwise;
  if (const auto bandwidth = map.find("bandwidth")) link.bandwidth = read_bandwidth(*bandwidth);
  if (const auto latency = map.find("latency")) link.latency_s = read_duration(*latency);
  return link;
}

DefaultLinks read_default_links(const YamlMap& cluster) {
  DefaultLinks defaults;
  const auto links = cluster.find("links");
  if (!links) return defaults;
  const YamlMap map = links->map({"host", "rack", "rank"},
                                 "the default links by kind: {host: {bandwidth, latency}}");
  const auto read = [&map](std::string_view kind, SiteLink& link) {
    const auto value = map.find(kind);
    if (value) link = read_link(value->map({"bandwidth", "latency"}, "{bandwidth, latency}"), {});
  };
  read("host", defaults.host);
  read("rack", defaults.rack);
  read("rank", defaults.rank);
  return defaults;
}

// The value of a key whose map may be abbreviated to its first value: `uplink: core` for `uplink:
// {to: core}`.
struct Abbreviated {
  YamlValue first;
  std::optional<YamlMap> rest;
};

Abbreviated read_abbreviated(const YamlValue& value, std::string_view first,
                             std::initializer_list<std::string_view> keys,
                             std::string_view expected) {
  if (!value.is_map()) return {value, std::nullopt};
  const YamlMap map = value.map(keys, expected);
  return {map.need(first, expected), map};
}

std::uint32_t count_of(const std::optional<YamlMap>& map, std::string_view key, int least, int most,
                       std::uint32_t otherwise) {
  const auto value = map ? map->find(key) : std::nullopt;
  return value ? static_cast<std::uint32_t>(value->count(least, most)) : otherwise;
}

void check_count(std::size_t found, std::size_t most, const char* what, const Place& place) {
  if (found <= most) return;
  refuse(place, "more than " + std::to_string(most) + " " + what,
         "at most " + std::to_string(most));
}

class SiteReader {
 public:
  explicit SiteReader(const YamlMap& cluster) : cluster_(cluster) {}

  Site read() {
    links_ = read_default_links(cluster_);
    site_.rank_link = links_.rank;
    if (const auto name = cluster_.find("name")) site_.name = name->text("a name");
    site_.lanes = count_of(cluster_, "lanes", 1, kMaxServers, 1);
    const YamlValue racks = cluster_.need("racks", "a list of racks");
    site_.place = racks.place();
    const std::vector<YamlValue> items = racks.list("a list of racks: {name, uplink, hosts}");
    if (items.empty()) racks.refuse("at least one rack");
    check_count(items.size(), kMaxRacks, "racks", racks.place());
    for (const YamlValue& item : items) add_rack(item);
    for (std::uint32_t rack = 0; rack < items.size(); ++rack) read_services(items[rack], rack);
    read_servers();
    if (const auto jobs = cluster_.find("jobs")) site_.weights = read_job_weights(*jobs);
    check_uplinks(site_);
    check_ports(site_);
    check_routes(site_);
    set_missing_ranks();
    return site_;
  }

 private:
  static YamlMap rack_map(const YamlValue& value) {
    return value.map({"name", "uplink", "switch", "hosts"}, "a rack: {name, uplink, hosts}");
  }

  void add_rack(const YamlValue& value) {
    const YamlMap map = rack_map(value);
    const YamlValue name = map.need("name", "the rack's name");
    SiteRack rack{.name = read_name(name), .place = value.place()};
    if (rack.name == kCore) {
      throw FileError(name.place(),
                      "core is reserved for the network above all racks; use another name");
    }
    rack_names_.add(rack.name, name.place(), "give each rack a different name");
    site_.racks.push_back(rack);
    for (const YamlValue& host : map.need("hosts", "a list of hosts").list("a list of hosts")) {
      add_host(host);
    }
  }

  void add_host(const YamlValue& value) {
    const YamlMap map =
        value.map({"name", "address", "ranks", "bandwidth", "latency"}, "a host: {name, address}");
    const YamlValue name = map.need("name", "the host's name");
    const YamlValue address = map.need("address", "its IPv4 or IPv6 address");
    const auto ranks = map.find("ranks");
    SiteHost host{.name = read_name(name),
                  .address = read_address(address),
                  .rack = static_cast<std::uint32_t>(site_.racks.size() - 1),
                  .link = read_link(map, links_.host),
                  .place = value.place()};
    if (ranks) host.ranks = static_cast<std::uint32_t>(ranks->count(0, kMaxRanks));
    host_names_.add(host.name, name.place(), "give each host a different name");
    addresses_.add(host.address, address.place(), "give each host a different address");
    has_ranks_.push_back(ranks.has_value());
    site_.hosts.push_back(host);
    check_count(site_.hosts.size(), kMaxHosts, "hosts", host.place);
  }

  // Reads the keys that refer to hosts and racks, which may follow later in the file.
  void read_services(const YamlValue& value, std::uint32_t rack) {
    const YamlMap map = rack_map(value);
    read_uplink(map, site_.racks[rack]);
    if (const auto node = map.find("switch")) read_switch(*node, rack);
  }

  void read_uplink(const YamlMap& map, SiteRack& rack) {
    rack.uplink = links_.rack;
    // A single rack needs no uplink.
    if (site_.racks.size() == 1 && !map.find("uplink")) return;
    const auto [to, rest] = read_abbreviated(map.need("uplink", kUplinkExpected), "to",
                                             {"to", "bandwidth", "latency"}, kUplinkExpected);
    if (rest) rack.uplink = read_link(*rest, links_.rack);
    const std::string name = to.text(kUplinkExpected);
    if (name != kCore) rack.above = find_rack(to, name);
    rack.place = to.place();
  }

  std::uint32_t find_rack(const YamlValue& value, const std::string& name) const {
    std::vector<std::string_view> names;
    for (const SiteRack& rack : site_.racks) {
      if (rack.name == name) return static_cast<std::uint32_t>(names.size());
      names.push_back(rack.name);
    }
    names.push_back(kCore);
    refuse(value.place(), shown(name), kUplinkExpected, hint(name, names));
  }

  std::uint32_t find_host(const YamlValue& value) const {
    const std::string name = value.text("a host of this file");
    const Result<std::uint32_t> host = site_.find_host(name);
    if (!host) throw FileError(value.place(), "unknown host: " + host.error().message);
    return host.value();
  }

  void read_switch(const YamlValue& value, std::uint32_t rack) {
    const auto [host, rest] = read_abbreviated(
        value, "host", {"host", "port", "aggregators", "partition", "quota", "places"},
        "the host that runs the rack's switch, or {host, port, aggregators}");
    SiteSwitch node{.host = find_host(host), .place = value.place()};
    if (site_.hosts[node.host].rack != rack) {
      throw FileError(host.place(), "a rack's switch must run on a host of the rack, but " +
                                        site_.hosts[node.host].name + " is in rack " +
                                        site_.racks[site_.hosts[node.host].rack].name);
    }
    node.port =
        static_cast<std::uint16_t>(count_of(rest, "port", 1, 65535, kServerPort + site_.lanes));
    node.aggregators = count_of(rest, "aggregators", 1, kMaxAggregators, 0);
    node.partition = count_of(rest, "partition", 1, kMaxAggregators, 0);
    node.quota = count_of(rest, "quota", 1, kMaxAggregators, 0);
    node.places = count_of(rest, "places", 1, kMaxPlaces, 0);
    site_.racks[rack].switch_node = node;
    serves_.push_back(node.host);
  }

  void read_servers() {
    const YamlValue servers = cluster_.need("servers", "a list of the hosts that run a server");
    for (const YamlValue& item : servers.list("a list of the hosts that run a server")) {
      const auto [host, rest] = read_abbreviated(item, "host", {"host", "port", "window", "lease"},
                                                 "a host, or {host, port, window, lease}");
      SiteServer server{.host = find_host(host), .place = item.place()};
      server.port = static_cast<std::uint16_t>(count_of(rest, "port", 1, 65535, kServerPort));
      server.window = count_of(rest, "window", 2, kMaxWindow, 0);
      server.lease = count_of(rest, "lease", kMinLease, kMaxLease, 0);
      if ((server.window & (server.window - 1)) != 0) {
        rest->find("window")->refuse("a power of two", "use 256, or omit it");
      }
      site_.servers.push_back(server);
      check_count(site_.servers.size() * site_.lanes, kMaxServers, "servers, counting lanes",
                  item.place());
      serves_.push_back(server.host);
    }
    if (site_.servers.empty()) servers.refuse("at least one host");
  }

  // A host without the key `ranks` has one rank, or none if it runs a switch or server.
  void set_missing_ranks() {
    for (std::uint32_t host = 0; host < site_.hosts.size(); ++host) {
      if (has_ranks_[host]) continue;
      const bool serves = std::find(serves_.begin(), serves_.end(), host) != serves_.end();
      site_.hosts[host].ranks = serves ? 0 : 1;
    }
  }

  const YamlMap& cluster_;
  DefaultLinks links_;
  Site site_;
  UniqueWords rack_names_, host_names_, addresses_;
  std::vector<bool> has_ranks_;        // by host: the file has the key `ranks`
  std::vector<std::uint32_t> serves_;  // hosts of switches and servers
};

}  // namespace

std::string read_name(const YamlValue& value) {
  const std::string expected = "a name of letters, digits, '-', '_' and '.'";
  std::string name = value.text(expected);
  const auto is_wrong = [](char c) {
    const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    return !is_letter && !(c >= '0' && c <= '9') && c != '-' && c != '_' && c != '.';
  };
  if (name.front() == '.' || std::any_of(name.begin(), name.end(), is_wrong)) {
    value.refuse(expected);
  }
  return name;
}

YamlMap cluster_map(const YamlNode& root, const std::string& file) {
  return YamlValue(root, {file, root.line, ""})
      .map({"name", "levels", "point_to_point", "measured", "device", "links", "racks", "servers",
            "lanes", "jobs"},
           "a map with the key levels or racks");
}

Site read_site(const YamlMap& cluster) { return SiteReader(cluster).read(); }

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

}  // namespace atp
