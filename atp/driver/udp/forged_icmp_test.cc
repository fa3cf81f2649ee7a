#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/ip_icmp.h>
#include <netinet/udp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <optional>
#include <vector>

#include "atp/driver/udp/path_mtu.h"
#include "atp/driver/udp/receive_batch.h"
#include "atp/driver/udp/route_mtu.h"
#include "atp/driver/udp/send_batch.h"
#include "atp/driver/udp/testing_namespace.h"

// Forged ICMP errors, and genuine-looking ones that quote a packet which was sent.

namespace atp {
namespace {

using ::testing::ElementsAre;
using Bytes = std::vector<std::uint8_t>;

Bytes packet(std::size_t length, std::uint8_t fill) {
  Bytes bytes(length, fill);
  bytes[ATP_AT_BITMAP_WORDS] = 1;
  return bytes;
}

// --- SentHeads

struct QuoteCase {
  const char* name;
  std::size_t sent;    // the length of the packet
  std::size_t quoted;  // how much of it the error quotes
  bool contained;
};

class Quotes : public ::testing::TestWithParam<QuoteCase> {};

INSTANTIATE_TEST_SUITE_P(All, Quotes,
                         ::testing::Values(QuoteCase{"as_linux_quotes_it", 1448, 520, true},
                                           QuoteCase{"as_rfc_4884_demands", 1448, 100, true},
                                           QuoteCase{"as_rfc_792_demands", 1448, 0, false},
                                           QuoteCase{"without_values", 1448, 48, false},
                                           QuoteCase{"all_of_a_short_packet", 56, 56, true},
                                           QuoteCase{"not_all_of_a_short_packet", 56, 48, false}),
                         [](const auto& c) { return std::string(c.param.name); });

TEST_P(Quotes, ProveWhatTheyContain) {
  const Endpoint to = Endpoint::ipv4(10, 0, 0, 1, 5501);
  const Bytes sent = packet(GetParam().sent, 7);
  SentHeads heads;
  heads.add(to, sent);
  EXPECT_EQ(heads.contain(to, std::span(sent).first(GetParam().quoted)), GetParam().contained);
}

TEST(SentHeads, AQuoteOfAnythingElseProvesNothing) {
  const Endpoint to = Endpoint::ipv4(10, 0, 0, 1, 5501);
  const Bytes sent = packet(1448, 7);
  SentHeads heads;
  EXPECT_FALSE(heads.contain(to, sent));
  heads.add(to, sent);
  EXPECT_TRUE(heads.contain(to, sent));
  EXPECT_FALSE(heads.contain(Endpoint::ipv4(10, 0, 0, 1, 5500), sent));
  EXPECT_FALSE(heads.contain(Endpoint::ipv4(10, 0, 0, 2, 5501), sent));
  for (std::size_t i = 0; i < ATP_HEADER_BYTES + 8 + SentHeads::kBodyBytes; ++i) {
    Bytes guess = sent;
    guess[i] ^= 1;
    EXPECT_FALSE(heads.contain(to, guess)) << "byte " << i << " differs";
  }
}

TEST(SentHeads, APacketThatWasCapturedTwoPeriodsAgoProvesNothing) {
  const Endpoint to = Endpoint::ipv4(10, 0, 0, 1, 5501);
  const Bytes sent = packet(1448, 7);
  const auto now = SentHeads::Clock::now();
  SentHeads heads;
  heads.add(to, sent, now);
  EXPECT_TRUE(heads.contain(to, sent, now + SentHeads::kPeriod));
  EXPECT_FALSE(heads.contain(to, sent, now + 2 * SentHeads::kPeriod));
  heads.add(to, sent, now + 2 * SentHeads::kPeriod);  // sent again
  EXPECT_TRUE(heads.contain(to, sent, now + 2 * SentHeads::kPeriod));
}

TEST(SentHeads, PacketsOverwrittenByLaterOnesAreForgotten) {
  const Endpoint to = Endpoint::ipv4(10, 0, 0, 1, 5501);
  const Bytes first = packet(1448, 7);
  SentHeads heads;
  heads.add(to, first);
  Bytes later = first;
  for (std::uint32_t number = 1; number <= 200'000; ++number) {
    atp_store32(later.data() + ATP_AT_SEQUENCE, number);
    heads.add(to, later);
  }
  EXPECT_TRUE(heads.contain(to, later));
  EXPECT_FALSE(heads.contain(to, first));
}

// --- whole errors, on the loopback of a private namespace

std::uint16_t checksum(std::span<const std::uint8_t> bytes) {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i + 1 < bytes.size(); i += 2) sum += atp_load16(bytes.data() + i);
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return htons(static_cast<std::uint16_t>(~sum));
}

class Forger {
 public:
  Forger() : fd_(socket(AF_INET, SOCK_RAW, IPPROTO_ICMP)) { EXPECT_GE(fd_, 0); }
  ~Forger() { close(fd_); }

  // Reports to 127.0.0.1 that a packet from `from` to `to` did not arrive. mtu 0: nobody listens
  // there; otherwise it was too big.
  void send(const Endpoint& from, const Endpoint& to, std::uint16_t mtu, const Bytes& quote) const {
    icmphdr error{};
    error.type = ICMP_DEST_UNREACH;
    error.code = mtu == 0 ? ICMP_PORT_UNREACH : ICMP_FRAG_NEEDED;
    error.un.frag.mtu = htons(mtu);
    iphdr ip{};
    ip.version = 4;
    ip.ihl = 5;
    ip.tot_len = htons(1476);
    ip.protocol = IPPROTO_UDP;
    std::memcpy(&ip.saddr, from.address.data() + 12, 4);
    std::memcpy(&ip.daddr, to.address.data() + 12, 4);
    udphdr udp{};
    udp.source = htons(from.port);
    udp.dest = htons(to.port);
    Bytes message;
    const auto append = [&](const void* data, std::size_t bytes) {
      const auto* begin = static_cast<const std::uint8_t*>(data);
      message.insert(message.end(), begin, begin + bytes);
    };
    append(&error, sizeof error);
    append(&ip, sizeof ip);
    append(&udp, sizeof udp);
    append(quote.data(), quote.size());
    error.checksum = checksum(message);
    std::memcpy(message.data(), &error, sizeof error);
    SocketAddress address{};
    to_socket_address(from, AF_INET, address);
    address.ipv4.sin_port = 0;
    EXPECT_GT(sendto(fd_, message.data(), message.size(), 0, &address.base, address.length), 0);
  }

 private:
  int fd_;
};

UdpSocket open_on_loopback() { return UdpSocket::open(Endpoint::ipv4(127, 0, 0, 1, 0)).value(); }

// What a socket learns about the packets it has sent.
struct Learned {
  std::vector<Endpoint> unreachable;
  std::vector<std::size_t> mtus;
  UdpCounters counters;

  void listen(const UdpSocket& socket, const SendBatch& sender) {
    ReceiveBatch().receive_errors(
        socket, sender.sent_heads(), counters,
        [&](const Endpoint& whom) { unreachable.push_back(whom); },
        [&](const Endpoint&, std::size_t mtu) { mtus.push_back(mtu); });
  }
};

TEST(ForgedIcmp, IsCountedUnlessItQuotesASentPacket) {
  in_small_network(1500, [] {
    const UdpSocket sender = open_on_loopback();
    const UdpSocket peer = open_on_loopback();
    const Forger forger;
    SendBatch batch;
    Outbox outbox(64, 1 << 20);
    Learned learned;
    const Bytes sent = packet(1448, 7);
    for (int i = 0; i < 10; ++i) outbox.send(peer.local(), sent);
    batch.send(sender, outbox, learned.counters);

    for (const std::uint16_t mtu : {0, 600}) {
      forger.send(sender.local(), peer.local(), mtu, packet(440, 8));
      forger.send(sender.local(), peer.local(), mtu, {});
    }
    learned.listen(sender, batch);
    EXPECT_TRUE(learned.unreachable.empty() && learned.mtus.empty());
    EXPECT_EQ(learned.counters[UdpCounter::kIcmpUnproven], 4u);

    const Bytes quote(sent.begin(), sent.begin() + 440);
    forger.send(sender.local(), peer.local(), 0, quote);
    forger.send(sender.local(), peer.local(), 600, quote);
    learned.listen(sender, batch);
    EXPECT_THAT(learned.unreachable, ElementsAre(peer.local()));
    EXPECT_THAT(learned.mtus, ElementsAre(600u));
    EXPECT_EQ(learned.counters[UdpCounter::kIcmpUnproven], 4u);

    // Whatever the kernel believes now, packets that fit the interface are sent.
    for (int i = 0; i < 10; ++i) outbox.send(peer.local(), packet(1472, 9));
    batch.send(sender, outbox, learned.counters);
    EXPECT_EQ(learned.counters[UdpCounter::kLostTooBig], 0u);
    EXPECT_EQ(learned.counters[UdpCounter::kDatagramsOut], 30u);  // the 10 above and these
  });
}

TEST(ForgedIcmp, DoesNotShrinkThePathOfTheNextSocket) {
  in_small_network(1500, [] {
    const Forger forger;
    std::optional<UdpSocket> listener = open_on_loopback();
    const Endpoint peer = listener->local();
    const UdpSocket victim = open_on_loopback();
    forger.send(victim.local(), peer, 600, {});
    EXPECT_EQ(kernels_mtu(peer).value(), 600u) << "the forged error did not reach the kernel";
    EXPECT_EQ(route_mtu(peer).value(), 1500u);
    // One port has a listener that does not answer, the other has none.
    EXPECT_EQ(path_mtu(peer).value(), 1500u);
    listener.reset();
    EXPECT_EQ(path_mtu(peer).value(), 1500u);
  });
}

}  // namespace
}  // namespace atp
