#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "atp/base/result.h"
#include "atp/wire/endpoint.h"

// Endpoints as people write them and as the kernel wants them.

namespace atp {

// "127.0.0.1:5500", "[::1]:5500" or "host:5500"; a name is resolved, to IPv4 where it has both
// (switch and server listen on IPv4 unless told otherwise). Port 0 is allowed: it means any port
// to who listens. Link-local IPv6 addresses are refused: they need a scope, which the protocol's
// endpoints do not have.
Result<Endpoint> resolve_endpoint(std::string_view text);

// A comma-separated list of endpoints to send to, as in ATP_ROUTE: at least one and no more than a
// route holds, no port 0. The caller knows, and says in its error, where the text came from.
Result<std::vector<Endpoint>> resolve_route(std::string_view text);

// Several of them with ";" between, the ways to the servers of a job. The hops of a way may have
// ranges of ports, "10.0.0.1:5501-5504,10.0.0.9:5500-5503": that stands for four ways, through the
// first port of each, the second, and so on. A hop with one port is on all of them.
inline constexpr std::size_t kMaxRoutes = 256;
Result<std::vector<std::vector<Endpoint>>> resolve_routes(std::string_view text);

// The address from which a socket reaches all of these: 0.0.0.0:0, or [::]:0 if one is IPv6 (such
// a socket reaches IPv4 as well).
Endpoint any_address_for(std::span<const Endpoint> peers);

bool is_loopback(const Endpoint& endpoint);
bool is_wildcard(const Endpoint& endpoint);

// What IP and UDP add to each datagram that goes to or comes from this endpoint.
constexpr std::size_t ip_udp_header_bytes(const Endpoint& endpoint) {
  return endpoint.is_ipv4() ? 28 : 48;
}

struct SocketAddress {
  union {
    sockaddr base;
    sockaddr_in ipv4;
    sockaddr_in6 ipv6;
  };
  socklen_t length = 0;
};

// For a socket of this family (AF_INET or AF_INET6). False if IPv4 cannot name the endpoint.
bool to_socket_address(const Endpoint& endpoint, int family, SocketAddress& out);
Endpoint to_endpoint(const SocketAddress& address);

}  // namespace atp
