#include "atp/cli/view/view_site.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <map>

#include "atp/config/site/routes.h"
#include "atp/config/site/site_reader.h"
#include "atp/driver/udp/address.h"

namespace atp {
namespace {

constexpr std::size_t kMostNodes = 1000;

// A word without a port is a file's name.
bool is_address(const std::string& word) {
  const std::size_t colon = word.rfind(':');
  if (colon == std::string::npos || colon + 1 == word.size()) return false;
  return word.find_first_not_of("0123456789-", colon + 1) == std::string::npos;
}

Result<ViewSite> site_of_addresses(const std::vector<std::string>& words) {
  ViewSite site;
  for (const std::string& word : words) {
    if (!is_address(word)) {
      return Error{fmt::format(
          "'{}' is not HOST:PORT; give one cluster file, or the addresses of nodes", word)};
    }
    // A range of ports stands for one route of a single hop per port.
    const auto ways = resolve_routes(word);
    if (!ways) return ways.error();
    for (const std::vector<Endpoint>& way : ways.value()) {
      const std::string address = to_string(way.front());
      const auto is_same = [&](const ViewNode& node) { return node.endpoint == way.front(); };
      if (std::any_of(site.nodes.begin(), site.nodes.end(), is_same)) continue;
      site.nodes.push_back(
          {.name = address, .role = "", .address = address, .host = "", .endpoint = way.front()});
    }
  }
  site.name =
      site.nodes.size() == 1 ? site.nodes[0].name : fmt::format("{} nodes", site.nodes.size());
  return site;
}

class SiteNodes {
 public:
  explicit SiteNodes(const Site& site) : site_(site) { view_.name = site.name; }

  ViewSite take() {
    add_servers();
    add_switches();
    add_links();
    return std::move(view_);
  }

 private:
  void add(const std::string& role, const std::string& name, std::uint32_t host,
           std::uint16_t port) {
    for (std::uint32_t lane = 0; lane < site_.lanes; ++lane) {
      const std::string address =
          endpoint_text(site_.hosts[host].address, static_cast<std::uint16_t>(port + lane));
      view_.nodes.push_back({.name = site_.lanes == 1 ? name : fmt::format("{}.{}", name, lane),
                             .role = role,
                             .address = address,
                             .host = site_.hosts[host].name,
                             .endpoint = resolve_endpoint(address).value()});
    }
  }

  // Under the names that `atp run` gives them.
  void add_servers() {
    for (const SiteServer& server : site_.servers) {
      const auto same = [&](const SiteServer& other) { return other.host == server.host; };
      const bool is_alone = std::count_if(site_.servers.begin(), site_.servers.end(), same) == 1;
      const std::string& host = site_.hosts[server.host].name;
      servers_.push_back(view_.nodes.size());
      add("server", is_alone ? "server-" + host : fmt::format("server-{}-{}", host, server.port),
          server.host, server.port);
    }
  }

  void add_switches() {
    for (std::uint32_t rack = 0; rack < site_.racks.size(); ++rack) {
      const auto& node = site_.racks[rack].switch_node;
      if (!node) continue;
      switches_[rack] = view_.nodes.size();
      add("switch", "switch-" + site_.racks[rack].name, node->host, node->port);
    }
  }

  void add_links() {
    for (const auto& [rack, first] : switches_) {
      for (std::uint32_t server = 0; server < site_.servers.size(); ++server) {
        const std::vector<std::uint32_t> way = switches_between(site_, rack, server);
        const std::size_t above = way.size() > 1 ? switches_.at(way[1]) : servers_[server];
        for (std::uint32_t lane = 0; lane < site_.lanes; ++lane) {
          const std::pair<std::size_t, std::size_t> link{first + lane, above + lane};
          if (std::find(view_.links.begin(), view_.links.end(), link) == view_.links.end()) {
            view_.links.push_back(link);
          }
        }
      }
    }
  }

  const Site& site_;
  ViewSite view_;
  std::vector<std::size_t> servers_;               // the first lane of each
  std::map<std::uint32_t, std::size_t> switches_;  // by rack, likewise
};

}  // namespace

ViewSite view_site_of(const Site& site) { return SiteNodes(site).take(); }

Result<ViewSite> view_site(const std::vector<std::string>& words) {
  Result<ViewSite> site = [&]() -> Result<ViewSite> {
    if (words.size() != 1 || is_address(words.front())) return site_of_addresses(words);
    const Result<Site> file = read_site_file(words.front());
    if (!file) return file.error();
    ViewSite of_file = view_site_of(file.value());
    if (of_file.name.empty()) of_file.name = words.front();
    return of_file;
  }();
  if (site && site.value().nodes.empty()) {
    return Error{
        fmt::format("{} has no switch and no server, so there is nothing to show", words.front())};
  }
  if (site && site.value().nodes.size() > kMostNodes) {
    return Error{
        fmt::format("found {} switches and servers, expected at most {}; name some of "
                    "them by their addresses",
                    site.value().nodes.size(), kMostNodes)};
  }
  return site;
}

}  // namespace atp
