#pragma once

#include <poll.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <functional>
#include <span>
#include <tuple>
#include <utility>

#include "atp/base/time.h"
#include "atp/core/outbox.h"
#include "atp/driver/udp/receive_batch.h"
#include "atp/driver/udp/running_clock.h"
#include "atp/driver/udp/send_batch.h"
#include "atp/driver/udp/socket.h"
#include "atp/driver/udp/waker.h"

// The loop of atp/core/README.md over one UDP socket, for any node. How to use it:
//
//   Result<UdpSocket> socket = UdpSocket::open(resolve_endpoint("127.0.0.1:5500").value());
//   auto waker = Waker::create();                       // wake() and stop() from other threads
//   Driven<Server> node(server);                        // or Driven<Worker, Tensors>
//   EventLoop loop(socket.value(), node, *waker.value());
//   loop.run();                                         // until waker.stop()
//
// One round: receive one batch, timers, on_round() (the application: take commands, poll events),
// poll_transmit(), send. A round that neither received nor sent anything is followed by sleep until
// a packet, an ICMP error, wake() or next_timeout(). So an event that poll_transmit() raises is
// still polled before the loop sleeps, and a command that precedes wake() is seen.
//
// The kernel is asked only for what it may have: packets when sleep() has seen some or the last
// batch was full, ICMP errors when sleep() has seen one or a call has failed. So a packet that
// wakes an idle node and is answered costs three calls: ppoll, recvmmsg and sendmmsg.
//
// A node's time passes only while its thread can run (RunningClock).
//
// All calls to the node come from the thread in run(). Nothing is allocated per round once the
// largest outbox has been seen.

namespace atp {

template <class Node>
concept DrivenNode = requires(Node node, const Node constant, Instant now, const Endpoint& endpoint,
                              std::span<const std::uint8_t> bytes, Outbox& out) {
  node.handle_packet(now, endpoint, bytes, out);
  node.handle_unreachable(now, endpoint, out);
  node.handle_too_big(now, endpoint, std::size_t{});
  node.handle_timeout(now, out);
  node.poll_transmit(now, out);
  node.on_round(now);
  { constant.next_timeout() } -> std::same_as<Instant>;
};

// Who serves several jobs must not wait long for one.
template <class Node>
concept ServesOthers = requires { requires Node::kServesOthers; };

// A node that tells others when it falls behind wants to be told.
template <class Node>
concept TellsCongestion = requires(Node node) { node.set_congested(true); };

// The monotonic clock, for those that nothing stops and for a node's time before it runs.
inline Instant clock_now() { return Instant(std::chrono::steady_clock::now().time_since_epoch()); }

template <DrivenNode Node>
class EventLoop {
 public:
  EventLoop(const UdpSocket& socket, Node& node, Waker& waker)
      : socket_(socket), node_(node), waker_(waker), outbox_(kOutboxPackets, kOutboxBytes) {}

  void run() {
    while (!waker_.stopped()) {
      if (!run_round()) sleep();
    }
    node_.on_round(now());
    transmit();
  }

  // Only from the loop's thread (in on_round(), for example).
  const UdpCounters& counters() const { return counters_; }
  std::uint64_t packets_lost_in_outbox() const { return outbox_.lost(); }

 private:
  // One input may cause a packet to each of 1024 children, so the outbox is sent at half full.
  static constexpr std::size_t kOutboxPackets = 4096;
  static constexpr std::size_t kFlushPackets = kOutboxPackets / 2;
  static constexpr std::size_t kOutboxBytes = std::size_t{8} << 20;
  static constexpr std::size_t kRoomPackets = 64;

  // True if anything was received or sent.
  bool run_round() {
    const std::uint64_t sent_before = counters_[UdpCounter::kDatagramsOut];
    const bool received = receive();
    if constexpr (TellsCongestion<Node>) node_.set_congested(falls_behind());
    const Instant time = now();
    if (time >= node_.next_timeout()) {
      flush();
      node_.handle_timeout(time, outbox_);
    }
    node_.on_round(time);
    transmit();
    return received || counters_[UdpCounter::kDatagramsOut] != sent_before;
  }

  bool receive() {
    received_bytes_ = 0;
    if (!readable_ && !failing_) return false;
    const Instant time = now();
    const ReceiveBatch::Received received = receive_.receive(
        socket_, counters_, [&](const Endpoint& from, std::span<const std::uint8_t> bytes) {
          node_.handle_packet(time, from, bytes, outbox_);
          if (outbox_.packets().size() >= kFlushPackets || !outbox_.has_room(kRoomPackets)) {
            flush();
          }
        });
    readable_ = received.more;
    received_bytes_ = received.bytes;
    if (std::exchange(failing_, false) || received.failed) {
      receive_.receive_errors(
          socket_, send_.sent_heads(), counters_,
          [&](const Endpoint& whom) { node_.handle_unreachable(time, whom, outbox_); },
          [&](const Endpoint& whom, std::size_t mtu) { node_.handle_too_big(time, whom, mtu); });
    }
    return received.datagrams > 0;
  }

  // Whether packets wait longer than they should. After a batch that took no time nobody needs to
  // ask: it has left the queue empty, or almost.
  bool falls_behind() const {
    constexpr std::size_t kShortBatchBytes = std::size_t{32} << 10;
    return (readable_ || received_bytes_ > kShortBatchBytes) && socket_.receive_queue_is_long();
  }

  // The node fills the outbox as often as it has something for it; its window ends that.
  void transmit() {
    for (;;) {
      const std::size_t before = outbox_.packets().size();
      node_.poll_transmit(now(), outbox_);
      const bool added = outbox_.packets().size() != before;
      flush();
      if (!added) return;
    }
  }

  void flush() {
    if (!send_.send(socket_, outbox_, counters_)) failing_ = true;
    outbox_.clear();
  }

  void sleep() {
    std::array<pollfd, 2> waiting{{{socket_.fd(), POLLIN, 0}, {waker_.fd(), POLLIN, 0}}};
    timespec timeout{};
    const timespec* limit = time_left(timeout) ? &timeout : nullptr;
    ppoll(waiting.data(), waiting.size(), limit, nullptr);
    // An error that is no ICMP error is told, and so forgotten, by the next receive.
    readable_ = waiting[0].revents != 0;
    failing_ = (waiting[0].revents & POLLERR) != 0;
    if ((waiting[1].revents & POLLIN) != 0) waker_.drain();
  }

  // False: no timer is armed.
  bool time_left(timespec& timeout) {
    const Instant next = node_.next_timeout();
    if (next == kNever) {
      clock_.sleep_forever();
      return false;
    }
    const Instant time = now();
    const RunningClock::Time wake_up =
        clock_.sleep_until(RunningClock::Time(next.time_since_epoch()));
    const Duration left = std::max(Instant(wake_up.time_since_epoch()) - time, Duration::zero());
    const auto seconds = std::chrono::floor<std::chrono::seconds>(left);
    timeout.tv_sec = seconds.count();
    timeout.tv_nsec = (left - seconds).count();
    return true;
  }

  Instant now() {
    const Duration before = clock_.stopped();
    const Instant time(clock_.now().time_since_epoch());
    if (const Duration more = clock_.stopped() - before; more > Duration::zero()) {
      const auto ms = std::chrono::ceil<std::chrono::milliseconds>(more);
      counters_.add(UdpCounter::kStoppedMs, static_cast<std::uint64_t>(ms.count()));
    }
    return time;
  }

  const UdpSocket& socket_;
  Node& node_;
  Waker& waker_;
  Outbox outbox_;
  ReceiveBatch receive_;
  SendBatch send_{SendBatch::kMaxSegments,
                  ServesOthers<Node> ? SendBatch::Patience::kShared : SendBatch::Patience::kOwn};
  UdpCounters counters_;
  RunningClock clock_;
  std::size_t received_bytes_ = 0;  // in this round
  bool readable_ = true;            // packets may be waiting
  bool failing_ = false;            // ICMP errors may be waiting
};

// A switch, a server or a worker in the loop; a worker together with its tensors, which it gets
// passed in each call. The hook runs each round and says when it wants to run next at the latest
// (kNever: no wish). A path that carries only smaller packets is nothing that the node could
// change; who runs it may want to hear of it.
template <class Node, class... Tensors>
class Driven {
 public:
  using Hook = std::function<Instant(Instant now)>;
  using TooBig = std::function<void(Instant now, const Endpoint& whom, std::size_t mtu)>;

  // A worker sends of its own accord, switches and servers only in answer to packets and timers.
  static constexpr bool kSendsByItself = requires(
      Node node, Instant now, Outbox& out, Tensors&... t) { node.poll_transmit(now, t..., out); };
  static constexpr bool kServesOthers = !kSendsByItself;

  explicit Driven(Node& node, Tensors&... tensors, Hook hook = nullptr, TooBig too_big = nullptr)
      : node_(node), tensors_(tensors...), hook_(std::move(hook)), too_big_(std::move(too_big)) {}

  void handle_packet(Instant now, const Endpoint& from, std::span<const std::uint8_t> bytes,
                     Outbox& out) {
    with_tensors([&](Tensors&... t) { node_.handle_packet(now, from, bytes, t..., out); });
  }
  void handle_unreachable(Instant now, const Endpoint& whom, Outbox& out) {
    with_tensors([&](Tensors&... t) { node_.handle_unreachable(now, whom, t..., out); });
  }
  void handle_too_big(Instant now, const Endpoint& whom, std::size_t mtu) {
    if (too_big_) too_big_(now, whom, mtu);
  }
  void set_congested(bool congested)
    requires TellsCongestion<Node>
  {
    node_.set_congested(congested);
  }
  void handle_timeout(Instant now, Outbox& out) {
    if (now < node_.next_timeout()) return;  // the hook's time has come
    with_tensors([&](Tensors&... t) { node_.handle_timeout(now, t..., out); });
  }
  void poll_transmit(Instant now, Outbox& out) {
    if constexpr (kSendsByItself) {
      with_tensors([&](Tensors&... t) { node_.poll_transmit(now, t..., out); });
    }
  }
  void on_round(Instant now) {
    if (hook_) hook_due_ = hook_(now);
  }
  Instant next_timeout() const { return std::min(node_.next_timeout(), hook_due_); }

 private:
  template <class Call>
  void with_tensors(const Call& call) {
    std::apply(call, tensors_);
  }

  Node& node_;
  const std::tuple<Tensors&...> tensors_;
  Hook hook_;
  TooBig too_big_;
  Instant hook_due_ = kNever;
};

}  // namespace atp
