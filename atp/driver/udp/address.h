#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "atp/base/result.h"
#include "atp/wire/endpoint.h"

// Converts endpoints from text, and to and from the kernel's socket addresses.

namespace atp {

// "127.0.0.1:5500", "[::1]:5500" or "host:5500". A name with both address families resolves to IPv4
// (switch and server listen on IPv4 by default). Port 0 is allowed: a listener takes any free port.
// Link-local IPv6 addresses are refused: they need a scope, which the protocol's endpoints lack.
Result<Endpoint> resolve_endpoint(std::string_view text);

// A comma-separated list of endpoints to send to, as in ATP_ROUTE: at least one, no more than a
// route holds, no port 0. The caller adds to the error where the text came from.
Result<std::vector<Endpoint>> resolve_route(std::string_view text);

// Several routes separated by ";", one per server of a job. Hops may have port ranges:
// "10.0.0.1:5501-5504,10.0.0.9:5500-5503" stands for four routes, the first through the first port
// of each hop, and so on. A hop with a single port is on all of them.
inline constexpr std::size_t kMaxRoutes = 256;
Result<std::vector<std::vector<Endpoint>>> resolve_routes(std::string_view text);

// The local address of a socket that reaches all peers: 0.0.0.0:0, or [::]:0 if one of them is IPv6
// (such a socket reaches IPv4 too).
Endpoint any_address_for(std::span<const Endpoint> peers);

bool is_loopback(const Endpoint& endpoint);
bool is_wildcard(const Endpoint& endpoint);

// The bytes of the IP and UDP headers of each datagram to or from this endpoint.
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

// Why bind() refuses an address (this errno), and what to do.
std::string bind_text(int error);

}  // namespace atp
