#include "atp/driver/udp/event_loop.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

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

  void handle_packet(Instant, const Endpoint&, std::span<const std::uint8_t> bytes, Outbox&) {
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
  void handle_packet(Instant, const Endpoint& from, std::span<const std::uint8_t> bytes,
                     Outbox& out) {
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
    void handle_packet(Instant, const Endpoint&, std::span<const std::uint8_t>, Outbox&) {}
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
    void handle_packet(Instant, const Endpoint&, std::span<const std::uint8_t>, Outbox&) {}
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

}  // namespace
}  // namespace atp
