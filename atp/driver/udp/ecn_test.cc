#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <poll.h>
#include <sys/socket.h>

#include <string>
#include <vector>

#include "atp/driver/udp/address.h"
#include "atp/driver/udp/receive_batch.h"
#include "atp/wire/packet.h"

// A router's congestion mark in the IP header reaches the node as the protocol's flag ECN.

namespace atp {
namespace {

using Bytes = std::vector<std::uint8_t>;

UdpSocket open_on(const std::string& address) {
  return UdpSocket::open(resolve_endpoint(address).value()).value();
}

Bytes packet(std::uint8_t type, std::size_t length = ATP_HEADER_BYTES) {
  Bytes bytes(length);
  bytes[0] = ATP_VERSION;
  if (length > ATP_AT_TYPE) bytes[ATP_AT_TYPE] = type;
  return bytes;
}

struct Received {
  Bytes bytes;
  std::uint64_t counted = 0;
};

// Sends a packet to `to` with this ECN field, as a router would set it, and returns what arrives.
Received through_a_router(const std::string& to, int ecn_field, const Bytes& sent) {
  const UdpSocket receiver = open_on(to);
  const Endpoint target = receiver.local();
  const UdpSocket sender = open_on(to);
  setsockopt(sender.fd(), SOL_IP, IP_TOS, &ecn_field, sizeof ecn_field);
  if (!target.is_ipv4()) {
    setsockopt(sender.fd(), SOL_IPV6, IPV6_TCLASS, &ecn_field, sizeof ecn_field);
  }
  SocketAddress address{};
  to_socket_address(target, sender.family(), address);
  EXPECT_EQ(sendto(sender.fd(), sent.data(), sent.size(), 0, &address.base, address.length),
            static_cast<ssize_t>(sent.size()));
  pollfd waiting{receiver.fd(), POLLIN, 0};
  EXPECT_EQ(poll(&waiting, 1, 2000), 1);
  Received received;
  UdpCounters counters;
  ReceiveBatch().receive(receiver, counters, [&](const ReceiveBatch::Datagram& datagram) {
    const std::span<std::uint8_t> bytes = datagram.bytes;
    if (datagram.congested) mark_ecn(bytes);
    received.bytes.assign(bytes.begin(), bytes.end());
  });
  received.counted = counters[UdpCounter::kCongestedIn];
  return received;
}

TEST(Ecn, AMarkInTheIpHeaderBecomesTheFlagOfAGradientOrParameter) {
  const struct {
    std::string what;
    std::string address;
    int ecn_field;
    Bytes sent;
    bool marked;
    std::uint64_t counted;
  } cases[] = {
      {"a GRADIENT", "127.0.0.1:0", IPTOS_ECN_CE, packet(ATP_GRADIENT), true, 1},
      {"a PARAMETER", "127.0.0.1:0", IPTOS_ECN_CE, packet(ATP_PARAMETER), true, 1},
      {"over IPv6", "[::1]:0", IPTOS_ECN_CE, packet(ATP_GRADIENT), true, 1},
      {"no mark", "127.0.0.1:0", IPTOS_ECN_ECT0, packet(ATP_GRADIENT), false, 0},
      {"no mark over IPv6", "[::1]:0", IPTOS_ECN_ECT0, packet(ATP_GRADIENT), false, 0},
      {"a type without the flag", "127.0.0.1:0", IPTOS_ECN_CE, packet(ATP_JOIN), false, 1},
      {"too short for a header", "127.0.0.1:0", IPTOS_ECN_CE, packet(0, 7), false, 1},
  };
  for (const auto& c : cases) {
    Bytes expected = c.sent;
    if (c.marked) expected[ATP_AT_FLAGS] |= ATP_FLAG_ECN;
    const Received received = through_a_router(c.address, c.ecn_field, c.sent);
    EXPECT_EQ(received.bytes, expected) << c.what;
    EXPECT_EQ(received.counted, c.counted) << c.what;
  }
}

TEST(Ecn, ASocketSendsAsEcnCapable) {
  for (const std::string address : {"127.0.0.1:0", "[::1]:0"}) {
    const UdpSocket socket = open_on(address);
    int field = 0;
    socklen_t length = sizeof field;
    const bool ipv6 = !socket.local().is_ipv4();
    ASSERT_EQ(getsockopt(socket.fd(), ipv6 ? SOL_IPV6 : SOL_IP, ipv6 ? IPV6_TCLASS : IP_TOS, &field,
                         &length),
              0);
    EXPECT_EQ(field & IPTOS_ECN_MASK, IPTOS_ECN_ECT0) << address;
  }
}

TEST(ReceiveQueue, IsLongOnceAQuarterOfTheBufferIsFull) {
  const UdpSocket receiver = open_on("127.0.0.1:0");
  const UdpSocket sender = open_on("127.0.0.1:0");
  EXPECT_FALSE(receiver.receive_queue_is_long());
  SocketAddress address{};
  to_socket_address(receiver.local(), sender.family(), address);
  const Bytes large(60000);
  for (int i = 0; i < 400 && !receiver.receive_queue_is_long(); ++i) {
    sendto(sender.fd(), large.data(), large.size(), 0, &address.base, address.length);
  }
  EXPECT_TRUE(receiver.receive_queue_is_long());
}

}  // namespace
}  // namespace atp
