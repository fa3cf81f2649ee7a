#pragma once

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "atp/driver/udp/address.h"
#include "atp/driver/udp/control_message.h"
#include "atp/driver/udp/counters.h"
#include "atp/driver/udp/sent_heads.h"
#include "atp/driver/udp/socket.h"
#include "atp/wire/packet_view.h"

// Receives in bulk. One recvmmsg takes up to 32 trains into a fixed arena. A train that the kernel
// merged (UDP_GRO) is cut at the segment size that its control message states, so the visitor gets
// the datagrams that were sent, in order, and need not care about trains.

namespace atp {

class ReceiveBatch {
 public:
  ReceiveBatch();
  ReceiveBatch(const ReceiveBatch&) = delete;  // the headers point into the object
  ReceiveBatch& operator=(const ReceiveBatch&) = delete;

  struct Datagram {
    const Endpoint& from;
    const Endpoint& to;  // the local address that it was sent to
    std::span<std::uint8_t> bytes;
    bool congested = false;  // its IP header has a mark of congestion
  };
  struct IgnoreTrain {
    void operator()(std::span<const std::uint8_t>, std::size_t) const {}
  };
  struct Received {
    std::size_t datagrams = 0;  // 0: nothing is waiting
    std::size_t bytes = 0;
    bool more = false;    // the batch was full, so others may be waiting
    bool failed = false;  // an ICMP error may be waiting
  };

  // Calls visit(const Datagram&) for each datagram of one recvmmsg. The bytes are the visitor's
  // during the call. Before the first of a train it calls begin(bytes, segment) with
  // all of the train, whose datagrams have `segment` bytes each but for the last.
  template <class Visit, class Begin = IgnoreTrain>
  Received receive(const UdpSocket& socket, UdpCounters& counters, Visit&& visit,
                   Begin&& begin = {}) {
    Received received;
    const std::size_t trains = fetch(socket, received);
    for (std::size_t i = 0; i < trains; ++i) {
      const Train train = train_at(i);
      count(train, counters);
      received.bytes += train.bytes.size();
      Endpoint to = socket.local();
      if (train.own) {
        socket.own_addresses()->learn(train.from, *train.own);
        to.address = *train.own;
      }
      begin(std::span<const std::uint8_t>(train.bytes), train.segment);
      std::size_t at = 0;
      do {  // at least once: a datagram may be empty
        const std::size_t left = train.bytes.size() - at;
        const auto datagram = train.bytes.subspan(at, std::min(train.segment, left));
        visit(Datagram{train.from, to, datagram, train.congested});
        at += train.segment;
        ++received.datagrams;
      } while (at < train.bytes.size());
    }
    return received;
  }

  // Calls unreachable(const Endpoint& whom) for each ICMP error that reports packets to `whom` as
  // undeliverable, and too_big(const Endpoint& whom, std::size_t mtu) for each that limits packets
  // to `whom` to `mtu` bytes. A router or this host may have reported the limit; this host does not
  // always give the port of `whom` (then 0). An ICMP error that quotes nothing in `sent` is only
  // counted.
  template <class Unreachable, class TooBig>
  void receive_errors(const UdpSocket& socket, const SentHeads& sent, UdpCounters& counters,
                      Unreachable&& unreachable, TooBig&& too_big) {
    while (const std::optional<PathError> error = next_error(socket, sent)) {
      if (error->counted_as) counters.add(*error->counted_as);
      if (error->kind == PathError::Kind::kUnreachable) unreachable(error->destination);
      if (error->kind == PathError::Kind::kTooBig) too_big(error->destination, error->mtu);
    }
  }

 private:
  static constexpr std::size_t kTrains = 32;
  static constexpr std::size_t kTrainBytes = 65536;

  struct Train {
    Endpoint from;
    std::span<std::uint8_t> bytes;
    std::size_t segment = 0;
    bool congested = false;                    // from the IP header
    std::optional<OwnAddresses::Address> own;  // on sockets that have own_addresses()
  };
  struct PathError {
    enum class Kind : std::uint8_t { kUnreachable, kTooBig, kOther };
    Kind kind = Kind::kOther;
    Endpoint destination;
    std::size_t mtu = 0;
    std::optional<UdpCounter> counted_as;
  };

  std::size_t fetch(const UdpSocket& socket, Received& received);
  Train train_at(std::size_t i) const;
  static void count(const Train& train, UdpCounters& counters);
  static std::optional<PathError> next_error(const UdpSocket& socket, const SentHeads& sent);

  std::unique_ptr<std::uint8_t[]> arena_;
  std::array<mmsghdr, kTrains> headers_{};
  std::array<iovec, kTrains> buffers_{};
  std::array<SocketAddress, kTrains> addresses_{};
  std::array<ControlBuffer, kTrains> controls_{};
};

}  // namespace atp
