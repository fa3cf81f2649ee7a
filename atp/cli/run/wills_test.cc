#include "atp/cli/run/wills.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "atp/core/outbox.h"
#include "atp/driver/keys/keyring.h"
#include "atp/driver/udp/address.h"
#include "atp/wire/join.h"

namespace atp {
namespace {

using Bytes = std::vector<std::uint8_t>;

struct Letter {
  Endpoint from;
  Bytes bytes;
};

std::optional<Letter> receive(const UdpSocket& socket) {
  std::vector<std::uint8_t> bytes(2000);
  SocketAddress from{};
  from.length = sizeof from.ipv6;
  const ssize_t got =
      recvfrom(socket.fd(), bytes.data(), bytes.size(), MSG_DONTWAIT, &from.base, &from.length);
  if (got < 0) return std::nullopt;
  bytes.resize(static_cast<std::size_t>(got));
  return Letter{to_endpoint(from), bytes};
}

// `key`: the rank's. Checks the will's three datagrams, whose tags a node with `node_keys` accepts.
void send_a_will(const std::optional<RankKey>& key, std::optional<Keyring> node_keys) {
  const Endpoint loopback = Endpoint::ipv4(127, 0, 0, 1, 0);
  const UdpSocket server = UdpSocket::open(loopback).value();
  const std::uint16_t port = UdpSocket::open(loopback).value().local().port;  // free again
  WorkerConfig config;
  config.rank = 2;
  config.world_size = 4;
  config.nonce = 99;
  config.route.push_back(server.local());

  Wills wills;
  setenv("ATP_WILLS", wills.folder_of("rank 2").c_str(), 1);
  const LastWill will(config, port, key);
  unsetenv("ATP_WILLS");
  Instant now{};
  wills.execute(now, "rank 1", "another rank, which left no will");
  EXPECT_EQ(receive(server), std::nullopt);
  wills.execute(now, "rank 2", "its process was killed by signal 9 (Killed)");
  int times = 0;
  for (; wills.next() != kNever; now = wills.next(), wills.send_due(now)) continue;
  while (const auto letter = receive(server)) {
    ++times;
    EXPECT_EQ(letter->from, Endpoint::ipv4(127, 0, 0, 1, port));
    Bytes bytes = letter->bytes;
    const Keyring::Checked checked =
        node_keys ? node_keys->check(letter->from, bytes) : check_without_keys(bytes);
    EXPECT_TRUE(checked.accepted);
    const ParsedPacket packet = parse_packet(checked.bytes);
    ASSERT_TRUE(packet.ok());
    const auto leave = Leave::read(packet.view().body);
    ASSERT_TRUE(leave);
    EXPECT_EQ(leave->nonce, 99u);
    EXPECT_EQ(leave->cause.view(), "its process was killed by signal 9 (Killed)");
  }
  EXPECT_EQ(times, 3);
}

TEST(Wills, AreSentFromTheRanksOwnPortWithTheCause) { send_a_will(std::nullopt, std::nullopt); }

TEST(Wills, HaveTagsIfTheRankHasAKey) {
  Tenant tenant{.name = "vision"};
  tenant.key.fill(3);
  const Keyring node_keys(Keyring::Side::kNode, {tenant});
  send_a_will(RankKey(tenant), node_keys);
  send_a_will(RankKey(keys_of_jobs(tenant, std::array{0U})), node_keys);
}

}  // namespace
}  // namespace atp
