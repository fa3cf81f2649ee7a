#pragma once

#include <string>
#include <utility>
#include <vector>

#include "atp/base/result.h"
#include "atp/config/site/site.h"
#include "atp/wire/endpoint.h"

// The nodes that `atp view` asks: those of a cluster file, or those of the given addresses.

namespace atp {

struct ViewNode {
  std::string name;     // "switch-a", or the address
  std::string role;     // "switch", "server", or "" until it has answered
  std::string address;  // as written: where it is asked
  std::string host;     // its name in the file
  Endpoint endpoint;
};

struct ViewSite {
  std::string name;
  std::vector<ViewNode> nodes;
  // The next node on each node's path, by index, as in the file.
  std::vector<std::pair<std::size_t, std::size_t>> links;
};

// Of one cluster file, or of the addresses: HOST:PORT, or HOST:FIRST-LAST for lanes.
Result<ViewSite> view_site(const std::vector<std::string>& words);
ViewSite view_site_of(const Site& site);

}  // namespace atp
