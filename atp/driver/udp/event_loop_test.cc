#include "atp/driver/udp/event_loop.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace atp {
namespace {

// Sends `remaining` numbered packets to a peer, at most ten at a time, and counts the answers.
class Asker {
 public:
  Asker(const Endpoint& peer, std::uint32_t questions, Waker& waker)
      : peer_(peer), remaining_(questions), waker_(waker) {}

  void handle_packet(Instant, const Endpoint&, const Endpoint&, std::span<const std::uint8_t> bytes,
                     Outbox&) {
    --in_flight_;
    EXPECT_EQ(atp_load32(bytes.data() + 14), answers_);
    ++answers_;
    if (remaining_ == 0 && in_flight_ == 0) waker_.stop();
  }
  void handle_unreachable(Instant, const Endpoint& whom, Outbox&) {
    EXPECT_EQ(whom, peer_);
    unreachable_ = true;
    waker_.stop();
  }
  void handle_too_big(Instant, const Endpoint& whom, std::size_t mtu) {
    ADD_FAILURE() << to_string(whom) << " accepts only " << mtu << " bytes";
  }
  void handle_timeout(Instant, Outbox&) {
    FAIL() << "no answer in time";
    waker_.stop();
  }
  void poll_transmit(Instant, Outbox& out) {
    for (; remaining_ > 0 && in_flight_ < 10; --remaining_, ++in_flight_) {
      std::vector<std::uint8_t> bytes(200);
      atp_store32(bytes.data() + 14, sent_++);
      out.send(peer_, bytes);
    }
  }
  void on_round(Instant) { ++rounds_; }
  Instant next_timeout() const { return deadline_; }

  std::uint32_t answers() const { return answers_; }
  bool unreachable() const { return unreachable_; }

 private:
  Endpoint peer_;
  std::uint32_t remaining_;
  Waker& waker_;
  Instant deadline_ = clock_now() + std::chrono::seconds(20);
  std::uint32_t sent_ = 0;
  std::uint32_t in_flight_ = 0;
  std::uint32_t answers_ = 0;
  std::uint32_t rounds_ = 0;
  bool unreachable_ = false;
};

// Sends everything back, as a switch or a server would; a timer runs every 10 ms.
class Echo {
 public:
  void handle_packet(Instant, const Endpoint& from, const Endpoint&,
                     std::span<const std::uint8_t> bytes, Outbox& out) {
    out.send(from, bytes);
  }
  void handle_unreachable(Instant, const Endpoint&, Outbox&) {}
  void handle_timeout(Instant now, Outbox&) {
    EXPECT_GE(now, due_);
    due_ = now + std::chrono::milliseconds(10);
    ++timeouts_;
  }
  Instant next_timeout() const { return due_; }
  int timeouts() const { return timeouts_; }

 private:
  Instant due_ = clock_now();
  int timeouts_ = 0;
};

UdpSocket loopback_socket() { return UdpSocket::open(Endpoint::ipv4(127, 0, 0, 1, 0)).value(); }

TEST(EventLoop, TwoNodesExchangePacketsUntilStopped) {
  const UdpSocket echo_socket = loopback_socket();
  const UdpSocket asker_socket = loopback_socket();
  const auto echo_waker = Waker::create().value();
  const auto asker_waker = Waker::create().value();

  std::thread thread([&] {
    Echo echo;
    Driven<Echo> node(echo);
    EventLoop(echo_socket, node, *echo_waker).run();
    EXPECT_GT(echo.timeouts(), 0);
  });
  Asker asker(echo_socket.local(), 5000, *asker_waker);
  EventLoop loop(asker_socket, asker, *asker_waker);
  loop.run();
  echo_waker->stop();
  thread.join();
  EXPECT_EQ(asker.answers(), 5000u);
  EXPECT_EQ(loop.counters()[UdpCounter::kDatagramsOut], 5000u);
}

TEST(EventLoop, AnUnreachablePeerIsReportedToTheNode) {
  const UdpSocket socket = loopback_socket();
  const Endpoint gone = loopback_socket().local();
  const auto waker = Waker::create().value();
  Asker asker(gone, 1, *waker);
  EventLoop(socket, asker, *waker).run();
  EXPECT_TRUE(asker.unreachable());
}

TEST(EventLoop, WakeRunsTheApplicationsHook) {
  const UdpSocket socket = loopback_socket();
  const auto waker = Waker::create().value();
  std::atomic<int> commands{0};
  std::atomic<int> done{0};
  class Idle {
   public:
    void handle_packet(Instant, const Endpoint&, const Endpoint&, std::span<const std::uint8_t>,
                       Outbox&) {}
    void handle_unreachable(Instant, const Endpoint&, Outbox&) {}
    void handle_timeout(Instant, Outbox&) {}
    Instant next_timeout() const { return kNever; }
  };
  Idle idle;
  Driven<Idle> node(idle, [&](Instant) {
    done = commands.load();
    return kNever;
  });
  EventLoop loop(socket, node, *waker);
  std::thread thread([&] { loop.run(); });
  for (int i = 1; i <= 100; ++i) {
    commands = i;
    waker->wake();
    while (done != i) std::this_thread::yield();
  }
  waker->stop();
  thread.join();
}

TEST(EventLoop, TheHookIsCalledAtTheTimeItReturned) {
  const UdpSocket socket = loopback_socket();
  const auto waker = Waker::create().value();
  Echo echo;
  int calls = 0;
  Driven<Echo> node(echo, [&](Instant now) {
    if (++calls == 5) waker->stop();
    return now + std::chrono::milliseconds(1);
  });
  EventLoop(socket, node, *waker).run();
  EXPECT_GE(calls, 5);
}

// More than a quarter of the node's receive buffer is full, and then less.
TEST(EventLoop, TellsTheNodeWhenItFallsBehindAndWhenItHasCaughtUp) {
  class Listener {
   public:
    explicit Listener(Waker& waker) : waker_(waker) {}
    void handle_packet(Instant, const Endpoint&, const Endpoint&, std::span<const std::uint8_t>,
                       Outbox&) {}
    void handle_unreachable(Instant, const Endpoint&, Outbox&) {}
    void handle_timeout(Instant, Outbox&) {}
    Instant next_timeout() const { return kNever; }
    void set_congested(bool congested) {
      if (congested_ && !congested) {
        has_caught_up_ = true;
        waker_.stop();
      }
      congested_ = congested;
    }
    bool has_caught_up() const { return has_caught_up_; }

   private:
    Waker& waker_;
    bool congested_ = false;
    bool has_caught_up_ = false;
  };
  const UdpSocket socket = loopback_socket();
  const UdpSocket sender = loopback_socket();
  SocketAddress address{};
  to_socket_address(socket.local(), sender.family(), address);
  // Sent one by one, so that after one batch more than a quarter even of a small buffer is left.
  const std::vector<std::uint8_t> packet(1400);
  for (int i = 0; i < 2000; ++i) {
    sendto(sender.fd(), packet.data(), packet.size(), 0, &address.base, address.length);
  }
  ASSERT_TRUE(socket.receive_queue_is_long());
  const auto waker = Waker::create().value();
  Listener listener(*waker);
  const Instant limit = clock_now() + std::chrono::seconds(20);
  Driven<Listener> node(listener, [&](Instant now) {
    if (now > limit) waker->stop();
    return limit + std::chrono::milliseconds(1);
  });
  EventLoop(socket, node, *waker).run();
  EXPECT_TRUE(listener.has_caught_up());
}

// Records what its node sees, and stops after `expected` packets.
class KeyedNode {
 public:
  KeyedNode(Waker& waker, std::size_t expected) : waker_(waker), expected_(expected) {}
  void handle_packet(Instant, const Endpoint& from, const Endpoint&,
                     std::span<const std::uint8_t> bytes, Outbox& out) {
    seen.emplace_back(bytes.begin(), bytes.end());
    out.send(from, bytes);
    stop_after_enough();
  }
  void refuse_key(Instant, const Endpoint&, std::span<const std::uint8_t> bytes, KeyProblem problem,
                  Outbox&) {
    refused.emplace_back(bytes.begin(), bytes.end());
    problems.push_back(problem);
    stop_after_enough();
  }
  void handle_unreachable(Instant, const Endpoint&, Outbox&) {}
  void handle_timeout(Instant, Outbox&) {
    ADD_FAILURE() << "too few packets in time";
    waker_.stop();
  }
  Instant next_timeout() const { return deadline_; }

  std::vector<std::vector<std::uint8_t>> seen;
  std::vector<std::vector<std::uint8_t>> refused;
  std::vector<KeyProblem> problems;

 private:
  void stop_after_enough() {
    if (seen.size() + refused.size() == expected_) waker_.stop();
  }

  Waker& waker_;
  std::size_t expected_;
  const Instant deadline_ = clock_now() + std::chrono::seconds(20);
};

std::vector<std::uint8_t> packet_of(std::uint8_t type) {
  std::vector<std::uint8_t> bytes(ATP_HEADER_BYTES + 8);
  bytes[ATP_AT_VERSION] = ATP_VERSION;
  bytes[ATP_AT_TYPE] = type;
  bytes[ATP_AT_BITMAP_WORDS] = 1;
  return bytes;
}

TEST(EventLoop, WithKeysTheNodeSeesPacketsWithoutTagsAndItsAnswersGetTags) {
  const UdpSocket socket = loopback_socket();
  const UdpSocket sender = loopback_socket();
  const auto waker = Waker::create().value();
  Tenant tenant{.name = "vision"};
  Keyring node_keys(Keyring::Side::kNode, {tenant});
  Keyring rank_keys(Keyring::Side::kRank, {tenant});
  const auto send = [&](std::vector<std::uint8_t> packet, bool with_tag, const Endpoint& source) {
    if (with_tag) {
      const std::size_t length = packet.size();
      packet.resize(length + ATP_TAG_BYTES);
      EXPECT_EQ(rank_keys.add_tag(packet, length, source), packet.size());
    }
    SocketAddress address{};
    to_socket_address(socket.local(), sender.family(), address);
    sendto(sender.fd(), packet.data(), packet.size(), 0, &address.base, address.length);
  };
  const int congested = 3;  // the ECN field of the IP header: congestion experienced
  setsockopt(sender.fd(), SOL_IP, IP_TOS, &congested, sizeof congested);
  send(packet_of(ATP_GRADIENT), true, {});
  send(packet_of(ATP_JOIN), true, sender.local());
  send(packet_of(ATP_JOIN), true, socket.local());
  send(packet_of(ATP_JOIN), false, {});
  send(packet_of(ATP_FLUSH), false, {});
  send(packet_of(ATP_NACK), true, {});

  KeyedNode seeing(*waker, 5);
  Driven<KeyedNode> node(seeing);
  EventLoop loop(socket, node, *waker, &node_keys);
  loop.run();

  auto marked = packet_of(ATP_GRADIENT);
  marked[ATP_AT_FLAGS] = ATP_FLAG_ECN;
  const std::vector<std::vector<std::uint8_t>> expected{marked, packet_of(ATP_JOIN),
                                                        packet_of(ATP_NACK)};
  auto in_node = expected;
  for (auto& packet : in_node) atp_store16(&packet[ATP_AT_TENANT], 1);
  EXPECT_EQ(seeing.seen, in_node) << "the tag does not cover the mark";
  const std::vector<std::vector<std::uint8_t>> joins(2, packet_of(ATP_JOIN));
  EXPECT_EQ(seeing.refused, joins);
  EXPECT_EQ(seeing.problems, (std::vector{KeyProblem::kWrongTag, KeyProblem::kNoTag}));
  EXPECT_EQ(loop.counters()[UdpCounter::kWrongKey], 3u);

  // The answers come as one train, the JOIN's from the node's own address.
  std::vector<std::uint8_t> train(2000);
  const std::size_t each = expected[0].size() + ATP_TAG_BYTES;
  ASSERT_EQ(recv(sender.fd(), train.data(), train.size(), 0),
            static_cast<ssize_t>(expected.size() * each));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const auto got = std::span(train).subspan(i * each, each);
    const Keyring::Checked checked = rank_keys.check(socket.local(), got);
    EXPECT_TRUE(checked.accepted) << i;
    EXPECT_TRUE(std::equal(checked.bytes.begin(), checked.bytes.end(), expected[i].begin()));
  }
}

TEST(EventLoop, WithoutKeysAJoinWithATagIsRefusedAndOtherPacketsWithTagsAreCounted) {
  const UdpSocket socket = loopback_socket();
  const UdpSocket sender = loopback_socket();
  const auto waker = Waker::create().value();
  SocketAddress address{};
  to_socket_address(socket.local(), sender.family(), address);
  for (const std::uint8_t type : {ATP_GRADIENT, ATP_JOIN}) {
    auto packet = packet_of(type);
    packet[ATP_AT_TAG_WORDS] = ATP_TAG_WORDS;
    packet.resize(packet.size() + ATP_TAG_BYTES);
    sendto(sender.fd(), packet.data(), packet.size(), 0, &address.base, address.length);
  }
  KeyedNode seeing(*waker, 1);
  Driven<KeyedNode> node(seeing);
  EventLoop loop(socket, node, *waker);
  loop.run();
  EXPECT_TRUE(seeing.seen.empty());
  EXPECT_EQ(seeing.problems, std::vector{KeyProblem::kNoKeys});
  EXPECT_EQ(loop.counters()[UdpCounter::kWrongKey], 2u);
}

}  // namespace
}  // namespace atp
