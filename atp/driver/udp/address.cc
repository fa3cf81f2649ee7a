#include "atp/driver/udp/address.h"

#include <netdb.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <string>
#include <utility>

#include "atp/base/errno_text.h"
#include "atp/wire/join.h"

namespace atp {
namespace {

struct HostAndPort {
  std::string host;
  std::uint16_t port = 0;
};

Error not_an_address(std::string_view text) {
  return {"'" + std::string(text) +
          "' is not an address: expected HOST:PORT, for example 127.0.0.1:5500 or [::1]:5500"};
}

Result<HostAndPort> split(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return not_an_address(text);
  std::string_view host = text.substr(0, colon);
  const std::string_view digits = text.substr(colon + 1);
  if (host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return not_an_address(text);  // an IPv6 address without brackets is ambiguous
  }
  unsigned port = 0;
  const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (problem != std::errc{} || end != digits.data() + digits.size() || port > 65535 ||
      host.empty()) {
    return not_an_address(text);
  }
  return HostAndPort{std::string(host), static_cast<std::uint16_t>(port)};
}

// fe80::/10. Such an address needs a scope to name its link, and our endpoints have none.
bool is_link_local(const Endpoint& endpoint) {
  return endpoint.address[0] == 0xfe && (endpoint.address[1] & 0xc0) == 0x80;
}

Result<Endpoint> look_up(const HostAndPort& wanted) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  const int problem = getaddrinfo(wanted.host.c_str(), nullptr, &hints, &found);
  if (problem != 0) {
    return Error{"cannot resolve '" + wanted.host + "': " + gai_strerror(problem)};
  }
  const addrinfo* chosen = found;
  for (const addrinfo* a = found; a != nullptr; a = a->ai_next) {
    if (a->ai_family == AF_INET) {
      chosen = a;
      break;
    }
  }
  SocketAddress address{};
  address.length = std::min<socklen_t>(chosen->ai_addrlen, sizeof(address.ipv6));
  std::memcpy(&address.base, chosen->ai_addr, address.length);
  freeaddrinfo(found);
  Endpoint endpoint = to_endpoint(address);
  endpoint.port = wanted.port;
  if (is_link_local(endpoint)) {
    return Error{"'" + wanted.host +
                 "' is a link-local address, which is only valid on one link: use a global "
                 "address, a unique local one (fd…) or IPv4"};
  }
  return endpoint;
}

// One hop of a route: an address with one port or a range of ports.
struct HopPorts {
  std::string text_without_port;  // "10.0.0.1:"
  unsigned first = 0;
  unsigned count = 0;  // 0: no range, and `text_without_port` is the whole text

  std::string at(unsigned lane) const {
    if (count == 0) return text_without_port;
    return text_without_port + std::to_string(first + (count == 1 ? 0 : lane));
  }
};

Result<HopPorts> read_hop(std::string_view hop) {
  const std::size_t digits = hop.rfind(':') + 1;  // 0 if there is none
  const std::size_t dash = digits == 0 ? hop.npos : hop.find('-', digits);
  if (dash == hop.npos) return HopPorts{.text_without_port = std::string(hop)};
  const auto port = [](std::string_view text) -> unsigned {
    unsigned number = 0;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
    return problem == std::errc{} && end == text.data() + text.size() && number <= 65535 ? number
                                                                                         : 0;
  };
  const unsigned first = port(hop.substr(digits, dash - digits));
  const unsigned last = port(hop.substr(dash + 1));
  if (first == 0 || last < first) {
    return Error{"'" + std::string(hop) +
                 "' has an invalid port range: expected HOST:FIRST-LAST, for example "
                 "10.0.0.1:5500-5503"};
  }
  return HopPorts{std::string(hop.substr(0, digits)), first, last - first + 1};
}

// Expands a route with port ranges into one route per lane.
Result<std::vector<std::string>> lanes_of(std::string_view way) {
  std::vector<HopPorts> hops;
  unsigned lanes = 1;
  for (std::size_t begin = 0; begin <= way.size();) {
    const std::size_t comma = std::min(way.find(',', begin), way.size());
    const Result<HopPorts> hop = read_hop(way.substr(begin, comma - begin));
    if (!hop) return hop.error();
    hops.push_back(hop.value());
    lanes = std::max(lanes, hop.value().count);
    begin = comma + 1;
  }
  std::vector<std::string> ways(lanes);
  for (const HopPorts& hop : hops) {
    if (hop.count > 1 && hop.count != lanes) {
      return Error{"'" + std::string(way) + "' has hops of " + std::to_string(hop.count) +
                   " and of " + std::to_string(lanes) +
                   " ports: give each hop a range of the same length, or a single port"};
    }
    for (unsigned lane = 0; lane < lanes; ++lane) {
      ways[lane] += (&hop == &hops.front() ? "" : ",") + hop.at(lane);
    }
  }
  return ways;
}

Error too_many_hops(std::size_t hops) {
  return {std::to_string(hops) + " hops; a route has the server and at most " +
          std::to_string(Route::kMaxHops - 1) + " switches before it"};
}

}  // namespace

Result<Endpoint> resolve_endpoint(std::string_view text) {
  const Result<HostAndPort> parts = split(text);
  if (!parts) return parts.error();
  return look_up(parts.value());
}

Result<std::vector<Endpoint>> resolve_route(std::string_view text) {
  std::vector<Endpoint> route;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t comma = std::min(text.find(',', begin), text.size());
    const Result<Endpoint> hop = resolve_endpoint(text.substr(begin, comma - begin));
    if (!hop) return hop.error();
    if (hop.value().port == 0 || is_wildcard(hop.value())) {
      return Error{"cannot send to " + to_string(hop.value()) +
                   ": a route needs the address and port of each switch and of the server"};
    }
    // Joining through it would go round in a circle until it times out.
    if (std::find(route.begin(), route.end(), hop.value()) != route.end()) {
      return Error{to_string(hop.value()) +
                   " stands twice in one route: name each switch once, and the server last"};
    }
    route.push_back(hop.value());
    begin = comma + 1;
  }
  if (route.size() > Route::kMaxHops) return too_many_hops(route.size());
  return route;
}

Result<std::vector<std::vector<Endpoint>>> resolve_routes(std::string_view text) {
  std::vector<std::vector<Endpoint>> routes;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(';', begin), text.size());
    const Result<std::vector<std::string>> lanes = lanes_of(text.substr(begin, end - begin));
    if (!lanes) return lanes.error();
    if (routes.size() + lanes.value().size() > kMaxRoutes) {
      return Error{"more than " + std::to_string(kMaxRoutes) +
                   " routes: a job can spread its tensors over at most that many servers or lanes"};
    }
    for (const std::string& lane : lanes.value()) {
      Result<std::vector<Endpoint>> route = resolve_route(lane);
      if (!route) return route.error();
      routes.push_back(std::move(route).value());
    }
    begin = end + 1;
  }
  return routes;
}

Endpoint any_address_for(std::span<const Endpoint> peers) {
  const bool all_ipv4 =
      std::all_of(peers.begin(), peers.end(), [](const Endpoint& e) { return e.is_ipv4(); });
  return all_ipv4 ? Endpoint::ipv4(0, 0, 0, 0, 0) : Endpoint{};
}

bool is_loopback(const Endpoint& endpoint) {
  if (endpoint.is_ipv4()) return endpoint.address[12] == 127;
  Endpoint loopback;
  loopback.address[15] = 1;
  return endpoint.address == loopback.address;
}

bool is_wildcard(const Endpoint& endpoint) {
  return endpoint.address == Endpoint{}.address ||
         endpoint.address == Endpoint::ipv4(0, 0, 0, 0, 0).address;
}

bool to_socket_address(const Endpoint& endpoint, int family, SocketAddress& out) {
  if (family == AF_INET) {
    if (!endpoint.is_ipv4()) return false;
    out.ipv4 = {};
    out.ipv4.sin_family = AF_INET;
    out.ipv4.sin_port = htons(endpoint.port);
    std::memcpy(&out.ipv4.sin_addr, endpoint.address.data() + 12, 4);
    out.length = sizeof(out.ipv4);
    return true;
  }
  out.ipv6 = {};
  out.ipv6.sin6_family = AF_INET6;
  out.ipv6.sin6_port = htons(endpoint.port);
  std::memcpy(&out.ipv6.sin6_addr, endpoint.address.data(), 16);
  out.length = sizeof(out.ipv6);
  return true;
}

Endpoint to_endpoint(const SocketAddress& address) {
  if (address.base.sa_family == AF_INET) {
    std::uint8_t a[4];
    std::memcpy(a, &address.ipv4.sin_addr, 4);
    return Endpoint::ipv4(a[0], a[1], a[2], a[3], ntohs(address.ipv4.sin_port));
  }
  Endpoint endpoint;
  std::memcpy(endpoint.address.data(), &address.ipv6.sin6_addr, 16);
  endpoint.port = ntohs(address.ipv6.sin6_port);
  return endpoint;
}

std::string bind_text(int error) {
  switch (error) {
    case EADDRINUSE: return "address already in use; choose another port";
    case EADDRNOTAVAIL: return "no interface of this machine has that address";
    case EACCES: return "permission denied; ports below 1024 usually need root";
    default: return errno_text(error);
  }
}

}  // namespace atp
