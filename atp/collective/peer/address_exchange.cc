#include "atp/collective/peer/address_exchange.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "atp/driver/udp/address.h"

namespace atp {
namespace {

constexpr std::size_t kAddressBytes = sizeof(Endpoint::address);

}  // namespace

std::vector<std::int32_t> address_words(const Endpoint& own, std::size_t rank, std::size_t ranks) {
  std::vector<std::int32_t> words(kAddressWords * ranks);
  std::int32_t* place = words.data() + kAddressWords * rank;
  std::memcpy(place, own.address.data(), kAddressBytes);
  place[kAddressWords - 1] = own.port;
  return words;
}

std::vector<Endpoint> addresses_of(std::span<const std::int32_t> words) {
  std::vector<Endpoint> addresses(words.size() / kAddressWords);
  for (Endpoint& each : addresses) {
    std::memcpy(each.address.data(), words.data(), kAddressBytes);
    each.port = static_cast<std::uint16_t>(words[kAddressWords - 1]);
    words = words.subspan(kAddressWords);
  }
  return addresses;
}

// The kernel chooses when a datagram socket is connected; nothing is sent.
Result<Endpoint> source_towards(const Endpoint& other) {
  const int family = other.is_ipv4() ? AF_INET : AF_INET6;
  SocketAddress address;
  const int fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  SocketAddress own;
  own.length = sizeof(own.ipv6);
  const bool found = fd >= 0 && to_socket_address(other, family, address) &&
                     ::connect(fd, &address.base, address.length) == 0 &&
                     getsockname(fd, &own.base, &own.length) == 0;
  const int error = errno;
  if (fd >= 0) close(fd);
  if (!found) {
    return Error{"this host has no address that reaches " + to_string(other) + ": " +
                 std::strerror(error)};
  }
  Endpoint source = to_endpoint(own);
  source.port = 0;
  return source;
}

}  // namespace atp
