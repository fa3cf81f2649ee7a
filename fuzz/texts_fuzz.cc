#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "atp/cli/node/prefix.h"
#include "atp/collective/network/last_will.h"
#include "atp/config/text/plain_text.h"
#include "atp/driver/udp/address.h"
#include "atp/driver/udp/sent_heads.h"
#include "atp/wire/packet_view.h"

// Texts from users and other ranks: endpoints (those of a ring's ranks come from a store), routes,
// networks, a rank's last will; and the quote in an ICMP error. Each reader returns an error, or a
// value whose text reads back as the same value.
//
// Names are not looked up here: no input may query a name server.

namespace {

using namespace atp;

void demand(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

void check_endpoint(std::string_view text) {
  const Result<Endpoint> endpoint = resolve_endpoint(text);
  if (!endpoint) return demand(!endpoint.error().message.empty(), "an error without a text");
  const Result<Endpoint> again = resolve_endpoint(to_string(endpoint.value()));
  demand(again && again.value() == endpoint.value(), "an endpoint reads back as another");
  SocketAddress address;
  const int family = endpoint.value().is_ipv4() ? AF_INET : AF_INET6;
  demand(to_socket_address(endpoint.value(), family, address), "no address for the kernel");
  demand(to_endpoint(address) == endpoint.value(), "the kernel's address differs");
}

void check_route(std::string_view text) {
  const auto route = resolve_route(text);
  if (!route) return;
  demand(!route.value().empty() && route.value().size() <= Route::kMaxHops,
         "an invalid number of hops");
  for (const Endpoint& hop : route.value()) demand(hop.port != 0, "a hop without a port");
}

void check_routes(std::string_view text) {
  const auto routes = resolve_routes(text);
  if (!routes) return;
  demand(!routes.value().empty() && routes.value().size() <= kMaxRoutes,
         "an invalid number of routes");
  for (const auto& route : routes.value()) demand(!route.empty(), "a route without a hop");
}

void check_prefix(std::string_view text) {
  const Result<Prefix> prefix = parse_prefix(text);
  if (!prefix) return;
  demand(prefix.value().bits <= 128, "more bits than an address has");
  Endpoint first;
  first.address = prefix.value().address;
  demand(prefix.value().contains(first), "a network without its own address");
}

// Whatever a will's file contains, only a LEAVE may be sent in a dead rank's name.
void check_will(std::string_view text) {
  std::optional<Will> will = parse_will(text);
  if (!will) return;
  demand(parse_will(text_of(*will)) == will, "a will reads back as another");
  const std::size_t bytes = will->leave.size();
  if (!will->give_cause("killed by SIGKILL")) return;
  const ParsedPacket packet = parse_packet(will->leave);
  demand(packet.ok() && packet.view().type() == PacketType::kLeave, "a will that is not a LEAVE");
  demand(will->leave.size() == bytes, "a will of another length");
  demand(Leave::read(packet.view().body)->cause.view() == "killed by SIGKILL", "another cause");
}

void check_quote(std::span<const std::uint8_t> quote) {
  static const Endpoint kTo = Endpoint::ipv4(10, 0, 0, 2, 5500);
  static SentHeads& sent = *new SentHeads;
  demand(!sent.contain(kTo, quote), "an error about a packet that was never sent is believed");
}

}  // namespace

// Accepts numeric addresses only, as with AI_NUMERICHOST.
extern "C" int getaddrinfo(const char* host, const char*, const addrinfo*, addrinfo** found) {
  struct Found {
    addrinfo info;
    sockaddr_in ipv4;
    sockaddr_in6 ipv6;
  };
  auto* result = static_cast<Found*>(std::calloc(1, sizeof(Found)));
  if (inet_pton(AF_INET, host, &result->ipv4.sin_addr) == 1) {
    result->ipv4.sin_family = AF_INET;
    result->info.ai_addr = reinterpret_cast<sockaddr*>(&result->ipv4);
    result->info.ai_addrlen = sizeof result->ipv4;
  } else if (inet_pton(AF_INET6, host, &result->ipv6.sin6_addr) == 1) {
    result->ipv6.sin6_family = AF_INET6;
    result->info.ai_addr = reinterpret_cast<sockaddr*>(&result->ipv6);
    result->info.ai_addrlen = sizeof result->ipv6;
  } else {
    std::free(result);
    return EAI_NONAME;
  }
  result->info.ai_family = result->info.ai_addr->sa_family;
  *found = &result->info;
  return 0;
}
extern "C" void freeaddrinfo(addrinfo* found) { std::free(found); }

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  check_endpoint(text);
  check_route(text);
  check_routes(text);
  check_prefix(text);
  check_will(text);
  check_quote({data, size});
  demand(is_plain(made_plain(text)), "the plain text is not plain");
  return 0;
}
