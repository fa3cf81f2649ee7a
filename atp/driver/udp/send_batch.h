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

// Sending in bulk. Nearly all of a UDP packet's cost is the walk through the kernel, and a train of
// segments (UDP_SEGMENT) walks once: ten times less work for each packet than sending it alone. So
// the packets of an outbox are sorted by destination, their order kept, and each run of equal
// length and stream becomes a train, which one shorter packet may end. Trains of one stream keep
// a train's loss, which is a loss of all of it, from touching several streams.
//
// A kernel or device that refuses segments is noticed once and gets single packets from then on. A
// full send buffer is waited for, but for a short time only: the packets lost after it are no
// worse than any lost packet. Who serves many jobs waits for no more than a tenth of the time, in
// which the others' packets lie unread. An interface whose queue has no room for a train gets as
// much of it as fits.

namespace atp {

class SendBatch {
 public:
  // An eighth of the usual window: of longer trains too few are on their way at a time, and parts
  // of the path lie idle in turns. (With 44 half of the runs of 700 int16 values at 1 Gbit/s took a
  // quarter more time, with 32 one in eight; 22 cost the processor more.)
  static constexpr std::size_t kMaxSegments = 32;
  static constexpr std::size_t kMaxTrainBytes = 65000;

  // How long one call waits for a full send buffer; kShared: and all calls, a tenth of the time.
  enum class Patience : std::uint8_t { kOwn, kShared };
  static constexpr std::chrono::milliseconds kLongestWait{10};

  explicit SendBatch(std::size_t max_segments = kMaxSegments, Patience patience = Patience::kOwn);
  SendBatch(const SendBatch&) = delete;
  SendBatch& operator=(const SendBatch&) = delete;

  // Sends all that is in the outbox; the caller clears it. False: a call failed, so that an ICMP
  // error may be waiting.
  bool send(const UdpSocket& socket, const Outbox& outbox, UdpCounters& counters);

  bool uses_segments() const { return max_segments_ > 1; }
  const SentHeads& sent_heads() const { return sent_heads_; }

 private:
  static constexpr std::size_t kMessages = 64;  // of one sendmmsg

  struct Destination {
    Endpoint endpoint;
    SocketAddress address;
    const OwnAddresses::Address* own = nullptr;  // to send from; null: the kernel chooses
    bool reachable = true;                       // by a socket of this family
    std::size_t first = 0;                       // of its packets in packets_
    std::size_t count = 0;
    std::size_t slot = 0;  // in slots_
  };
  struct Train {
    std::size_t first = 0;  // of its packets in packets_
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
