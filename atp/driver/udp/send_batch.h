#pragma once

#include <sys/socket.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "atp/core/outbox.h"
#include "atp/driver/udp/address.h"
#include "atp/driver/udp/control_message.h"
#include "atp/driver/udp/counters.h"
#include "atp/driver/udp/sent_heads.h"
#include "atp/driver/udp/socket.h"

// Sends in bulk. Nearly all of a UDP packet's cost is its path through the kernel, and a train of
// segments (UDP_SEGMENT) takes that path once: a tenth of the work per packet. So the packets of an
// outbox are sorted by destination, their order kept, and each run of equal length and stream
// becomes a train, which one shorter packet may end. A train is lost as a whole; since it has one
// stream only, its loss does not touch others.
//
// Once a kernel or device refuses segments, it gets single packets from then on. send() waits for a
// full send buffer, but only briefly: packets lost after that are no worse than any lost packet. A
// node that serves many jobs waits for at most a tenth of the time, because packets of other jobs
// lie unread meanwhile. An interface whose queue has no room for a train gets as much of it as
// fits.

namespace atp {

class SendBatch {
 public:
  // An eighth of the usual window. With longer trains too few are in flight at a time, so some part
  // of the path is always idle. (With 44 segments, half of the runs of 700 int16 values at 1 Gbit/s
  // took a quarter more time; with 32, one in eight; 22 cost more CPU time.)
  static constexpr std::size_t kMaxSegments = 32;
  static constexpr std::size_t kMaxTrainBytes = 65000;

  // How long to wait for a full send buffer. kOwn: bounded per call; kShared: also at most a tenth
  // of the time over all calls.
  enum class Patience : std::uint8_t { kOwn, kShared };
  static constexpr std::chrono::milliseconds kLongestWait{10};

  explicit SendBatch(std::size_t max_segments = kMaxSegments, Patience patience = Patience::kOwn);
  SendBatch(const SendBatch&) = delete;
  SendBatch& operator=(const SendBatch&) = delete;

  // Sends everything in the outbox, which the caller clears. False: a call failed, so an ICMP error
  // may be waiting.
  bool send(const UdpSocket& socket, const Outbox& outbox, UdpCounters& counters);

  bool uses_segments() const { return max_segments_ > 1; }
  const SentHeads& sent_heads() const { return sent_heads_; }

 private:
  static constexpr std::size_t kMessages = 64;  // per sendmmsg

  struct Destination {
    Endpoint endpoint;
    SocketAddress address;
    const OwnAddresses::Address* own = nullptr;  // to send from; null: the kernel chooses
    bool reachable = true;                       // from a socket of this family
    std::size_t first = 0;                       // its first packet in packets_
    std::size_t count = 0;
    std::size_t slot = 0;  // its index in slots_
  };
  struct Train {
    std::size_t first = 0;  // its first packet in packets_
    std::size_t count = 0;
    std::size_t bytes = 0;
    std::size_t destination = 0;
  };

  void sort_by_destination(const Outbox& outbox);
  std::size_t destination_of(const Endpoint& endpoint);
  void forget_destinations();
  void address_destinations(const UdpSocket& socket);
  void cut_trains(UdpCounters& counters);
  bool fits(const Train& train, std::size_t packet) const;
  bool send_trains(const UdpSocket& socket, UdpCounters& counters);
  void send_with_care(const UdpSocket& socket, const Train& train, UdpCounters& counters);
  void send_what_fits(const UdpSocket& socket, const Train& train, UdpCounters& counters);
  void send_singly(const UdpSocket& socket, const Train& train, int problem, UdpCounters& counters);
  Train part_of(const Train& train, std::size_t first, std::size_t count) const;
  int try_to_send(const UdpSocket& socket, const Train& train);
  void prepare(const Train& train, msghdr& message, ControlBuffer& control);
  bool wait_until_writable(const UdpSocket& socket);
  void replenish_patience();
  void note_sent(const Train& train, UdpCounters& counters);

  std::size_t max_segments_;
  const Patience patience_;
  std::chrono::steady_clock::duration patience_left_ = kLongestWait;
  std::chrono::steady_clock::time_point waited_last_{};
  std::vector<std::uint32_t> destination_of_packet_;
  std::vector<Destination> destinations_;
  std::vector<std::uint32_t> slots_;  // open hash table of destinations_, 0: empty
  std::vector<iovec> packets_;        // sorted by destination
  std::vector<Train> trains_;
  SentHeads sent_heads_;
  std::array<mmsghdr, kMessages> headers_{};
  std::array<ControlBuffer, kMessages> controls_{};
};

}  // namespace atp
