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
#include "atp/driver/keys/keyring.h"
#include "atp/driver/udp/receive_batch.h"
#include "atp/driver/udp/route_mtu.h"
#include "atp/driver/udp/running_clock.h"
#include "atp/driver/udp/send_batch.h"
#include "atp/driver/udp/socket.h"
#include "atp/driver/udp/waker.h"

// Runs the loop of atp/core/README.md over one UDP socket, for any node. Usage:
//
//   Result<UdpSocket> socket = UdpSocket::open(resolve_endpoint("127.0.0.1:5500").value());
//   auto waker = Waker::create();                       // wake() and stop() from other threads
//   Driven<Server> node(server);                        // or Driven<Worker, Tensors>
//   EventLoop loop(socket.value(), node, *waker.value());
//   loop.run();                                         // until waker.stop()
//
// A round receives one batch, runs due timers, calls on_round() (where the application takes
// commands and polls events), then poll_transmit(), and sends. After a round that neither received
// nor sent anything the loop sleeps until a packet, an ICMP error, wake() or next_timeout(). So an
// event that poll_transmit() raises is polled before the loop sleeps, and a command given before
// wake() is not missed.
//
// The loop asks the kernel only for what may be there: packets after sleep() has seen some or the
// last batch was full, ICMP errors after sleep() has seen one or a call has failed. So answering a
// packet that wakes an idle node costs three calls: ppoll, recvmmsg and sendmmsg.
//
// With a Keyring the loop checks the tag of each packet that comes and adds one to each that goes;
// the node sees neither (docs/inside/protocol §2, *Keys*).
//
// A node's time passes only while its thread can run (RunningClock).
//
// All calls to the node come from the thread in run(). A round allocates nothing once the outbox
// has reached its largest size.

namespace atp {

template <class Node>
concept DrivenNode = requires(Node node, const Node constant, Instant now, const Endpoint& endpoint,
                              std::span<const std::uint8_t> bytes, Outbox& out) {
  node.handle_packet(now, endpoint, endpoint, bytes, out);
  node.handle_unreachable(now, endpoint, out);
  node.handle_too_big(now, endpoint, std::size_t{});
  node.handle_timeout(now, out);
  node.poll_transmit(now, out);
  node.on_round(now);
  { constant.next_timeout() } -> std::same_as<Instant>;
};

// A node that serves several jobs must not wait long for one of them.
template <class Node>
concept ServesOthers = requires { requires Node::kServesOthers; };

// A node that answers JOINs whose tag is not accepted.
template <class Node>
concept RefusesKeys =
    requires(Node node, Instant now, const Endpoint& from, std::span<const std::uint8_t> bytes,
             Outbox& out) { node.refuse_key(now, from, bytes, KeyProblem::kNone, out); };

// A node that reports to others when it falls behind takes the loop's signal.
template <class Node>
concept TellsCongestion = requires(Node node) { node.set_congested(true); };

// The monotonic clock, for code that is never stopped and for a node's time before it runs.
inline Instant clock_now() { return Instant(std::chrono::steady_clock::now().time_since_epoch()); }

template <DrivenNode Node>
class EventLoop {
 public:
  // `keys` may be null: packets have no tags.
  EventLoop(const UdpSocket& socket, Node& node, Waker& waker, Keyring* keys = nullptr)
      : socket_(socket),
        node_(node),
        waker_(waker),
        keys_(keys),
        outbox_(kOutboxPackets, kOutboxBytes, keys == nullptr ? 0 : ATP_TAG_BYTES) {}

  void run() {
    while (!waker_.stopped()) {
      if (!run_round()) sleep();
    }
    node_.on_round(now());
    transmit();
  }

  // Call this only on the loop's thread, for example in on_round().
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
        socket_, counters_,
        [&](const ReceiveBatch::Datagram& datagram) {
          handle_datagram(time, datagram);
          if (outbox_.packets().size() >= kFlushPackets || !outbox_.has_room(kRoomPackets)) {
            flush();
          }
        },
        [this](std::span<const std::uint8_t> train, std::size_t segment) {
          if (keys_ != nullptr) keys_->begin_train(train, segment);
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

  // The mark comes from the network, so no tag covers it.
  void handle_datagram(Instant time, const ReceiveBatch::Datagram& datagram) {
    const Endpoint& from = datagram.from;
    const Keyring::Checked checked =
        keys_ == nullptr ? check_without_keys(datagram.bytes) : keys_->check(from, datagram.bytes);
    if (checked.accepted) {
      if (datagram.congested) mark_ecn(checked.bytes);
      return node_.handle_packet(time, from, datagram.to, checked.bytes, outbox_);
    }
    counters_.add(UdpCounter::kWrongKey);
    if constexpr (RefusesKeys<Node>) {
      if (checked.bytes[ATP_AT_TYPE] == ATP_JOIN) {
        node_.refuse_key(time, from, checked.bytes, checked.problem, outbox_);
      }
    }
  }

  // Whether packets wait longer than they should. Skips the system call after a short batch, which
  // has left the queue almost empty.
  bool falls_behind() const {
    constexpr std::size_t kShortBatchBytes = std::size_t{32} << 10;
    return (readable_ || received_bytes_ > kShortBatchBytes) && socket_.receive_queue_is_long();
  }

  // Lets the node fill the outbox until it adds nothing; its window bounds the repetitions.
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
    if (keys_ != nullptr) add_tags();
    if (!send_.send(socket_, outbox_, counters_)) failing_ = true;
    outbox_.clear();
  }

  void add_tags() {
    outbox_.edit_payloads(
        [this](std::span<std::uint8_t> room, std::size_t length, const Endpoint& to) {
          const bool joins = room[ATP_AT_TYPE] == ATP_JOIN;
          return keys_->add_tag_later(room, length, joins ? source_towards(to) : Endpoint{});
        });
    keys_->add_tags();
  }

  // The address that `to` sees. There is one JOIN per rank per second, so asking the kernel is
  // cheap.
  Endpoint source_towards(const Endpoint& to) const {
    Endpoint source = socket_.local();
    const OwnAddresses* own = socket_.own_addresses();
    if (const auto* known = own == nullptr ? nullptr : own->find(to)) {
      source.address = *known;
    } else if (is_wildcard(source)) {
      if (const Result<Endpoint> route = route_source(to)) source.address = route.value().address;
    }
    return source;
  }

  void sleep() {
    std::array<pollfd, 2> waiting{{{socket_.fd(), POLLIN, 0}, {waker_.fd(), POLLIN, 0}}};
    timespec timeout{};
    const timespec* limit = time_left(timeout) ? &timeout : nullptr;
    ppoll(waiting.data(), waiting.size(), limit, nullptr);
    // The next receive returns, and so clears, an error that does not come from ICMP.
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
  Keyring* const keys_;
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

// Adapts a switch, a server or a worker to the loop. A worker gets its tensors passed in each call.
// The hook runs every round and returns the latest time of its next run (kNever: none). A node
// cannot do anything about a path with a smaller MTU, so `too_big` reports it to the application.
template <class Node, class... Tensors>
class Driven {
 public:
  using Hook = std::function<Instant(Instant now)>;
  using TooBig = std::function<void(Instant now, const Endpoint& whom, std::size_t mtu)>;

  // A worker initiates packets; switches and servers only react to packets and timers.
  static constexpr bool kSendsByItself = requires(
      Node node, Instant now, Outbox& out, Tensors&... t) { node.poll_transmit(now, t..., out); };
  static constexpr bool kServesOthers = !kSendsByItself;

  explicit Driven(Node& node, Tensors&... tensors, Hook hook = nullptr, TooBig too_big = nullptr)
      : node_(node), tensors_(tensors...), hook_(std::move(hook)), too_big_(std::move(too_big)) {}

  // A worker does not ask where a packet arrived: it has one socket.
  void handle_packet(Instant now, const Endpoint& from, const Endpoint& to,
                     std::span<const std::uint8_t> bytes, Outbox& out) {
    if constexpr (kSendsByItself) {
      with_tensors([&](Tensors&... t) { node_.handle_packet(now, from, bytes, t..., out); });
    } else {
      node_.handle_packet(now, from, to, bytes, out);
    }
  }
  void refuse_key(Instant now, const Endpoint& from, std::span<const std::uint8_t> bytes,
                  KeyProblem problem, Outbox& out)
    requires RefusesKeys<Node>
  {
    if (refused_) refused_(now, from, bytes, problem);
    node_.refuse_key(now, from, bytes, problem, out);
  }
  // Reports the refused JOINs to the application as well.
  using Refused = std::function<void(Instant now, const Endpoint& from,
                                     std::span<const std::uint8_t> bytes, KeyProblem problem)>;
  void on_refused(Refused refused) { refused_ = std::move(refused); }
  // Reports to the application whom an ICMP error that is believed was about.
  using Unreachable = std::function<void(const Endpoint& whom)>;
  void on_unreachable(Unreachable unreachable) { unreachable_ = std::move(unreachable); }
  void handle_unreachable(Instant now, const Endpoint& whom, Outbox& out) {
    if (unreachable_) unreachable_(whom);
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
    if (now < node_.next_timeout()) return;  // only the hook is due
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
  Refused refused_;
  Unreachable unreachable_;
  Instant hook_due_ = kNever;
};

}  // namespace atp
