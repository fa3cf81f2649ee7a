#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <cstdlib>
#include <map>
#include <vector>

#include "atp/base/random.h"
#include "atp/driver/udp/path_mtu.h"
#include "atp/driver/udp/receive_batch.h"
#include "atp/driver/udp/send_batch.h"
#include "atp/driver/udp/testing_namespace.h"

// SendBatch and ReceiveBatch against each other, over the loopback.

namespace atp {
namespace {

using ::testing::HasSubstr;
using Bytes = std::vector<std::uint8_t>;

UdpSocket open_on(const char* address) {
  Result<UdpSocket> socket = UdpSocket::open(resolve_endpoint(address).value());
  if (!socket) ADD_FAILURE() << socket.error().message;
  return std::move(socket).value();
}

// A packet of this stream that its number distinguishes from others.
Bytes packet(std::size_t length, std::uint16_t stream, std::uint32_t number) {
  Bytes bytes(length, static_cast<std::uint8_t>(number));
  if (length >= 18) {
    atp_store16(bytes.data() + ATP_AT_STREAM, stream);
    atp_store32(bytes.data() + 14, number);
  }
  return bytes;
}

// Receives until `count` datagrams have arrived, or none has for a second.
std::vector<Bytes> receive_all(const UdpSocket& socket, std::size_t count, UdpCounters& counters,
                               std::vector<Endpoint>* from = nullptr,
                               std::vector<Endpoint>* to = nullptr) {
  ReceiveBatch batch;
  std::vector<Bytes> got;
  while (got.size() < count) {
    pollfd waiting{socket.fd(), POLLIN, 0};
    if (poll(&waiting, 1, 1000) <= 0) break;
    const std::uint8_t* next = nullptr;  // where the train that was announced goes on
    std::size_t segment = 0;
    batch.receive(
        socket, counters,
        [&](const ReceiveBatch::Datagram& datagram) {
          const std::span<const std::uint8_t> bytes = datagram.bytes;
          EXPECT_EQ(bytes.data(), next);
          EXPECT_LE(bytes.size(), segment);
          next += segment;
          got.emplace_back(bytes.begin(), bytes.end());
          if (from != nullptr) from->push_back(datagram.from);
          if (to != nullptr) to->push_back(datagram.to);
        },
        [&](std::span<const std::uint8_t> train, std::size_t size) {
          next = train.data();
          segment = size;
        });
  }
  return got;
}

// A sender and several receivers: checks that packets arrive as they were sent.
class Pair {
 public:
  explicit Pair(const char* address, std::size_t receivers = 1)
      : sender(open_on(address)), outbox(4096, 8 << 20) {
    for (std::size_t i = 0; i < receivers; ++i) receivers_.push_back(open_on(address));
  }
  void put(std::size_t receiver, const Bytes& bytes) {
    outbox.send(receivers_[receiver].local(), bytes);
    expected_[receiver].push_back(bytes);
  }
  void send_and_compare(SendBatch& batch) {
    batch.send(sender, outbox, sent);
    outbox.clear();
    for (auto& [receiver, packets] : expected_) {
      std::vector<Endpoint> from;
      const std::vector<Bytes> got =
          receive_all(receivers_[receiver], packets.size(), received, &from);
      ASSERT_EQ(got.size(), packets.size());
      for (std::size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], packets[i]) << "packet " << i;
      for (const Endpoint& f : from) ASSERT_EQ(f, sender.local());
    }
    expected_.clear();
  }

  UdpSocket sender;
  Outbox outbox;
  UdpCounters sent;
  UdpCounters received;

 private:
  std::vector<UdpSocket> receivers_;
  std::map<std::size_t, std::vector<Bytes>> expected_;
};

constexpr std::size_t kFull = 1448;  // 350 values

struct TrainCase {
  const char* name;
  std::vector<std::pair<std::size_t, std::uint16_t>> packets;  // length and stream
  std::size_t trains;
};

class Trains : public ::testing::TestWithParam<TrainCase> {};

std::vector<std::pair<std::size_t, std::uint16_t>> repeat(std::size_t n, std::size_t length) {
  return std::vector<std::pair<std::size_t, std::uint16_t>>(n, {length, std::uint16_t{0}});
}

INSTANTIATE_TEST_SUITE_P(
    All, Trains,
    ::testing::Values(
        TrainCase{"one_packet_is_no_train", repeat(1, kFull), 1},
        TrainCase{"equal_packets_share_a_train", repeat(32, kFull), 1},
        TrainCase{"a_train_has_at_most_32_segments", repeat(33, kFull), 2},
        TrainCase{"a_train_has_less_than_64_KB", repeat(8, 8952), 2},
        TrainCase{"a_shorter_packet_ends_a_train",
                  {{kFull, 0}, {kFull, 0}, {100, 0}, {kFull, 0}, {kFull, 0}},
                  2},
        TrainCase{"a_longer_packet_begins_a_train", {{100, 0}, {kFull, 0}, {kFull, 0}}, 2},
        TrainCase{"streams_do_not_share_a_train",
                  {{kFull, 0}, {kFull, 0}, {kFull, 1}, {kFull, 1}, {kFull, 0}},
                  3},
        TrainCase{"packets_without_a_stream_are_carried_too", {{3, 0}, {3, 0}, {1, 0}}, 1}),
    [](const auto& c) { return std::string(c.param.name); });

TEST_P(Trains, ArriveAsTheSamePacketsInOrder) {
  for (const char* address : {"127.0.0.1:0", "[::1]:0"}) {
    Pair pair(address);
    SendBatch batch;
    std::uint32_t number = 0;
    for (const auto& [length, stream] : GetParam().packets) {
      pair.put(0, packet(length, stream, number++));
    }
    pair.send_and_compare(batch);
    EXPECT_EQ(pair.sent[UdpCounter::kTrainsOut], GetParam().trains) << address;
    EXPECT_EQ(pair.received[UdpCounter::kTrainsIn], GetParam().trains) << address;
    EXPECT_TRUE(batch.uses_segments());
  }
}

TEST(SendBatch, SortsManyDestinationsAndLengthsAndKeepsTheOrderOfEach) {
  Random random(1);
  Pair pair("127.0.0.1:0", 9);
  SendBatch batch;
  for (int round = 0; round < 20; ++round) {
    for (std::uint32_t number = 0; number < 500; ++number) {
      const std::size_t length = random.chance(0.8) ? kFull : 1 + random.below(2000);
      pair.put(random.below(9),
               packet(length, static_cast<std::uint16_t>(random.below(2)), number));
    }
    ASSERT_NO_FATAL_FAILURE(pair.send_and_compare(batch));
  }
}

TEST(SendBatch, CountsBytesWithAndWithoutHeaders) {
  for (const auto& [address, header] : {std::pair("127.0.0.1:0", 28u), std::pair("[::1]:0", 48u)}) {
    Pair pair(address);
    SendBatch batch;
    for (std::uint32_t i = 0; i < 10; ++i) pair.put(0, packet(1000, 0, i));
    pair.send_and_compare(batch);
    EXPECT_EQ(pair.sent[UdpCounter::kDatagramsOut], 10u);
    EXPECT_EQ(pair.sent[UdpCounter::kBytesOut], 10000u);
    EXPECT_EQ(pair.sent[UdpCounter::kIpBytesOut], 10000u + 10 * header);
    EXPECT_EQ(pair.received[UdpCounter::kDatagramsIn], 10u);
    EXPECT_EQ(pair.received[UdpCounter::kBytesIn], 10000u);
    EXPECT_EQ(pair.received[UdpCounter::kIpBytesIn], 10000u + 10 * header);
  }
}

TEST(SendBatch, SendsSinglyFromThenOnWhenSegmentsAreRefused) {
  Pair pair("127.0.0.1:0");
  // Segments need checksums: without them the kernel refuses (EINVAL), as old kernels always do.
  const int on = 1;
  ASSERT_EQ(setsockopt(pair.sender.fd(), SOL_SOCKET, SO_NO_CHECK, &on, sizeof on), 0);
  SendBatch batch;
  for (int round = 0; round < 2; ++round) {
    for (std::uint32_t i = 0; i < 100; ++i) pair.put(0, packet(kFull, 0, i));
    ASSERT_NO_FATAL_FAILURE(pair.send_and_compare(batch));
  }
  EXPECT_FALSE(batch.uses_segments());
  EXPECT_EQ(pair.sent[UdpCounter::kDatagramsOut], 200u);
  EXPECT_EQ(pair.sent[UdpCounter::kTrainsOut], 200u);
  EXPECT_GE(pair.sent[UdpCounter::kSegmentsRefused], 1u);
}

TEST(SendBatch, AnIpv6SocketReachesIpv4AndAnIpv4SocketCountsIpv6AsLost) {
  UdpSocket six = open_on("[::]:0");
  UdpSocket four = open_on("127.0.0.1:0");
  SendBatch batch;
  UdpCounters counters;
  Outbox outbox;
  for (std::uint32_t i = 0; i < 3; ++i) outbox.send(four.local(), packet(kFull, 0, i));
  batch.send(six, outbox, counters);
  std::vector<Endpoint> from;
  EXPECT_EQ(receive_all(four, 3, counters, &from).size(), 3u);
  EXPECT_TRUE(from.at(0).is_ipv4());

  outbox.clear();
  outbox.send(resolve_endpoint("[::1]:9").value(), packet(kFull, 0, 0));
  batch.send(four, outbox, counters);
  EXPECT_EQ(counters[UdpCounter::kLostOther], 1u);
}

TEST(ReceiveBatch, AnEmptyDatagramIsDelivered) {
  UdpSocket sender = open_on("127.0.0.1:0");
  UdpSocket receiver = open_on("127.0.0.1:0");
  SocketAddress to{};
  to_socket_address(receiver.local(), AF_INET, to);
  ASSERT_EQ(sendto(sender.fd(), nullptr, 0, 0, &to.base, to.length), 0);
  UdpCounters counters;
  EXPECT_EQ(receive_all(receiver, 1, counters).size(), 1u);
}

// Sends to a closed port and to an open one; returns the endpoints reported as unreachable.
std::vector<Endpoint> unreachable_beside_an_open_port(const char* address) {
  UdpSocket sender = open_on(address);
  UdpSocket there = open_on(address);
  const Endpoint gone = open_on(address).local();  // closed again
  SendBatch batch;
  UdpCounters counters;
  Outbox outbox;
  for (std::uint32_t i = 0; i < 3; ++i) {
    outbox.send(gone, packet(kFull, 0, i));
    outbox.send(there.local(), packet(kFull, 0, i));
  }
  batch.send(sender, outbox, counters);
  batch.send(sender, outbox, counters);  // the pending error must not cost a packet
  EXPECT_EQ(receive_all(there, 6, counters).size(), 6u);

  pollfd waiting{sender.fd(), 0, 0};
  poll(&waiting, 1, 1000);
  ReceiveBatch receiver;
  std::vector<Endpoint> unreachable;
  receiver.receive_errors(
      sender, batch.sent_heads(), counters,
      [&](const Endpoint& whom) { unreachable.push_back(whom); },
      [&](const Endpoint& whom, std::size_t) { ADD_FAILURE() << to_string(whom); });
  EXPECT_THAT(unreachable, ::testing::Each(gone));
  EXPECT_EQ(counters[UdpCounter::kIcmpUnreachable], unreachable.size());
  return unreachable;
}

// Tries several times: another program may have taken the port, and the kernel limits the rate of
// such errors.
TEST(ReceiveBatch, AnUnreachablePortIsReportedWithItsEndpoint) {
  for (const char* address : {"127.0.0.1:0", "[::1]:0"}) {
    std::vector<Endpoint> unreachable;
    for (int attempt = 0; unreachable.empty() && attempt < 10; ++attempt) {
      unreachable = unreachable_beside_an_open_port(address);
    }
    EXPECT_FALSE(unreachable.empty()) << address;
  }
}

// Sends to `asked` and returns the sources of the answers; `answers` are sent from one outbox.
std::vector<Endpoint> ask(const UdpSocket& listener, Endpoint asked, std::size_t answers) {
  asked.port = listener.local().port;
  const UdpSocket client = UdpSocket::open(any_address_for(std::vector{asked})).value();
  Outbox outbox(64, 1 << 20);
  UdpCounters counters;
  SendBatch batch;
  outbox.send(asked, packet(100, 0, 0));
  batch.send(client, outbox, counters);
  outbox.clear();
  std::vector<Endpoint> peers;
  std::vector<Endpoint> arrived;
  receive_all(listener, 1, counters, &peers, &arrived);
  EXPECT_EQ(arrived, std::vector<Endpoint>{asked}) << "where the packet has arrived";
  for (std::size_t i = 0; i < answers; ++i) outbox.send(peers.at(0), packet(100, 0, 0));
  batch.send(listener, outbox, counters);
  std::vector<Endpoint> from;
  receive_all(client, answers, counters, &from);
  return from;
}

TEST(UdpSocket, BoundToAllAddressesKnowsTheOneAskedAndAnswersFromIt) {
  struct Case {
    const char* listen;
    const char* asked;
  };
  const Case cases[] = {{"0.0.0.0:0", "127.0.0.1:0"},
                        {"0.0.0.0:0", "127.0.0.2:0"},
                        {"[::]:0", "127.0.0.2:0"},
                        {"[::]:0", "[::1]:0"},
                        {"127.0.0.3:0", "127.0.0.3:0"}};
  for (const Case& c : cases) {
    const UdpSocket listener = UdpSocket::listen(resolve_endpoint(c.listen).value()).value();
    for (const std::size_t answers : {1u, 7u}) {
      Endpoint asked = resolve_endpoint(c.asked).value();
      const std::vector<Endpoint> from = ask(listener, asked, answers);
      asked.port = listener.local().port;
      EXPECT_EQ(from, std::vector<Endpoint>(answers, asked)) << c.listen << " " << c.asked;
    }
  }
}

TEST(OwnAddresses, AreAllForgottenWhenThereAreTooMany) {
  OwnAddresses own;
  const OwnAddresses::Address mine = Endpoint::ipv4(10, 0, 0, 2, 0).address;
  Endpoint peer = Endpoint::ipv4(10, 0, 0, 9, 1);
  own.learn(peer, mine);
  ASSERT_NE(own.find(peer), nullptr);
  EXPECT_EQ(*own.find(peer), mine);
  for (std::size_t i = 1; i < OwnAddresses::kMaxPeers; ++i) {
    peer.address[0] = 1;
    peer.port = static_cast<std::uint16_t>(i);
    own.learn(peer, mine);
  }
  EXPECT_NE(own.find(Endpoint::ipv4(10, 0, 0, 9, 1)), nullptr);
  own.learn(Endpoint::ipv4(10, 0, 0, 10, 2), mine);
  EXPECT_EQ(own.find(Endpoint::ipv4(10, 0, 0, 9, 1)), nullptr);
  EXPECT_NE(own.find(Endpoint::ipv4(10, 0, 0, 10, 2)), nullptr);
}

TEST(UdpSocket, TheErrorOfATakenPortSaysWhatToDo) {
  UdpSocket first = open_on("127.0.0.1:0");
  const Result<UdpSocket> second = UdpSocket::open(first.local());
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().message,
            "cannot listen on " + to_string(first.local()) +
                ": address already in use; `atp status " + to_string(first.local()) +
                "` shows whether an atp switch or server runs there; choose another port "
                "(--listen, or `port:` in the cluster file)");
}

TEST(UdpSocket, TheErrorNamesAnAddressOfAnotherMachine) {
  const Result<UdpSocket> socket = UdpSocket::open(Endpoint::ipv4(192, 0, 2, 1, 0));
  ASSERT_FALSE(socket.ok());
  EXPECT_THAT(socket.error().message, HasSubstr("192.0.2.1:0: no interface of this machine"));
}

struct MtuCase {
  std::size_t mtu_bytes;
  std::size_t words;
  std::uint16_t values;
};

TEST(ValuesForMtu, Table) {
  for (const MtuCase& c : std::vector<MtuCase>{{1500, 1, 350},
                                               {9000, 1, 2226},
                                               {65536, 1, 2226},
                                               {1280, 1, 296},
                                               {1500, 16, 320},
                                               {1499, 1, 350},
                                               {104, 1, 2},
                                               {103, 1, 0},
                                               {68, 1, 0},
                                               {0, 16, 0}}) {
    EXPECT_EQ(values_for_mtu(c.mtu_bytes, c.words), c.values) << c.mtu_bytes << " " << c.words;
  }
}

TEST(ValuesForMtu, AndBack) {
  EXPECT_EQ(mtu_for_values(350), 1496u);
  EXPECT_EQ(mtu_for_values(2226), 9000u);
  EXPECT_EQ(mtu_for_values(320, 16), 1496u);
}

TEST(PathMtu, TheLoopbackCarriesTheLargestPacket) {
  const Result<std::size_t> mtu = path_mtu(Endpoint::ipv4(127, 0, 0, 1, 5500));
  ASSERT_TRUE(mtu.ok());
  EXPECT_EQ(values_for_mtu(mtu.value()), ATP_VALUES_MAX);
  EXPECT_EQ(interface_mtu(Endpoint::ipv4(127, 0, 0, 1, 5500)).value(), mtu.value());
}

// Expects the error for packets that were too big for the path to the sender's own address.
void expect_told_the_mtu(const UdpSocket& sender, std::size_t mtu) {
  ReceiveBatch receiver;
  UdpCounters counters;
  std::vector<std::size_t> told;
  receiver.receive_errors(
      sender, SentHeads(), counters,
      [&](const Endpoint& whom) { ADD_FAILURE() << to_string(whom); },
      [&](const Endpoint& whom, std::size_t found) {
        EXPECT_EQ(whom.address, sender.local().address);
        told.push_back(found);
      });
  EXPECT_FALSE(told.empty());
  EXPECT_THAT(told, ::testing::Each(mtu));
  EXPECT_EQ(counters[UdpCounter::kIcmpTooBig], 0u);  // reported by this host, not by ICMP
}

TEST(SendBatch, APacketTooBigForThePathIsCountedAndNeverFragmented) {
  in_small_network(1500, [] {
    EXPECT_EQ(path_mtu(Endpoint::ipv4(127, 0, 0, 1, 1)).value(), 1500u);
    for (const auto& [address, fits] :
         {std::pair("127.0.0.1:0", 1472u), std::pair("[::1]:0", 1452u)}) {
      Pair pair(address);
      SendBatch batch;
      for (std::uint32_t i = 0; i < 5; ++i) pair.put(0, packet(fits, 0, i));
      ASSERT_NO_FATAL_FAILURE(pair.send_and_compare(batch));

      // Two packets that are too big: one alone, one in a train with a short packet that fits.
      pair.outbox.send(pair.sender.local(), packet(fits + 1, 0, 0));
      batch.send(pair.sender, pair.outbox, pair.sent);
      EXPECT_EQ(pair.sent[UdpCounter::kLostTooBig], 1u);
      pair.outbox.clear();
      pair.outbox.send(pair.sender.local(), packet(fits + 1, 0, 0));
      pair.outbox.send(pair.sender.local(), packet(fits + 1, 0, 0));
      pair.outbox.send(pair.sender.local(), packet(fits, 0, 0));
      batch.send(pair.sender, pair.outbox, pair.sent);
      EXPECT_EQ(pair.sent[UdpCounter::kLostTooBig], 3u);
      EXPECT_EQ(receive_all(pair.sender, 1, pair.received).size(), 1u);
      EXPECT_TRUE(batch.uses_segments());
      expect_told_the_mtu(pair.sender, 1500);
    }
  });
}

// Packets that an interface cannot send (here because ARP gets no answer) fill the send buffer.
std::chrono::steady_clock::duration time_of_sends(SendBatch::Patience patience, int sends) {
  const UdpSocket sender = open_on("0.0.0.0:0");
  const int small = 4096;
  EXPECT_EQ(setsockopt(sender.fd(), SOL_SOCKET, SO_SNDBUF, &small, sizeof small), 0);
  SendBatch batch(SendBatch::kMaxSegments, patience);
  Outbox outbox(64, 1 << 20);
  for (std::uint32_t i = 0; i < 20; ++i) {
    outbox.send(resolve_endpoint("10.9.0.2:9").value(), packet(1000, 0, i));
  }
  UdpCounters counters;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < sends; ++i) batch.send(sender, outbox, counters);
  EXPECT_GT(counters[UdpCounter::kLostQueueFull], 0u);
  return std::chrono::steady_clock::now() - begin;
}

TEST(SendBatch, WaitsAtMostATenthOfTheTimeForAFullBufferIfItServesOthers) {
  in_small_network(1500, [] {
    ASSERT_EQ(std::system("ip link add near type veth peer name far && ip link set far up && "
                          "ip link set near up && ip addr add 10.9.0.1/24 dev near"),
              0);
    EXPECT_GE(time_of_sends(SendBatch::Patience::kOwn, 20), 20 * SendBatch::kLongestWait * 9 / 10);
    EXPECT_LT(time_of_sends(SendBatch::Patience::kShared, 100), 50 * SendBatch::kLongestWait);
  });
}

}  // namespace
}  // namespace atp
