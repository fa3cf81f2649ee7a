#include "atp/driver/udp/send_batch.h"

#include <netinet/udp.h>
#include <poll.h>

#include <algorithm>
#include <bit>
#include <cerrno>

#include "atp/driver/udp/endpoint_hash.h"

namespace atp {
namespace {

// The stream of a packet; a value that no stream has if the packet is too short to hold one.
std::uint32_t stream_of(const iovec& packet) {
  if (packet.iov_len < ATP_AT_STREAM + 2) return UINT32_MAX;
  return atp_load16(static_cast<const std::uint8_t*>(packet.iov_base) + ATP_AT_STREAM);
}

// True for the errors of a kernel or device that cannot send trains. (Other errors may be transient
// or come from ICMP, which anybody can forge.)
bool refuses_segments(int problem) {
  return problem == EINVAL || problem == EIO || problem == EPERM;
}

UdpCounter loss_of(int problem) {
  switch (problem) {
    case EAGAIN:
    case ENOBUFS: return UdpCounter::kLostQueueFull;
    case EMSGSIZE: return UdpCounter::kLostTooBig;
    default: return UdpCounter::kLostOther;
  }
}

}  // namespace

SendBatch::SendBatch(std::size_t max_segments, Patience patience)
    : max_segments_(max_segments), patience_(patience), slots_(1024) {}

bool SendBatch::send(const UdpSocket& socket, const Outbox& outbox, UdpCounters& counters) {
  if (outbox.empty()) return true;
  if (patience_ == Patience::kOwn) patience_left_ = kLongestWait;
  sort_by_destination(outbox);
  address_destinations(socket);
  cut_trains(counters);
  const bool all_at_once = send_trains(socket, counters);
  forget_destinations();
  return all_at_once;
}

// A counting sort: stable, so each destination keeps its order.
void SendBatch::sort_by_destination(const Outbox& outbox) {
  const std::span<const OutPacket> packets = outbox.packets();
  const std::size_t slots = std::bit_ceil(2 * packets.size());
  if (slots_.size() < slots) slots_.assign(slots, 0);
  destination_of_packet_.resize(packets.size());
  packets_.resize(packets.size());
  for (std::size_t i = 0; i < packets.size(); ++i) {
    const std::size_t destination = destination_of(packets[i].to);
    destination_of_packet_[i] = static_cast<std::uint32_t>(destination);
    ++destinations_[destination].count;
  }
  std::size_t first = 0;
  for (Destination& destination : destinations_) {
    destination.first = first;
    first += destination.count;
    destination.count = 0;
  }
  for (std::size_t i = 0; i < packets.size(); ++i) {
    Destination& destination = destinations_[destination_of_packet_[i]];
    const std::span<const std::uint8_t> bytes = outbox.bytes_of(packets[i]);
    packets_[destination.first + destination.count++] = {const_cast<std::uint8_t*>(bytes.data()),
                                                         bytes.size()};
  }
}

std::size_t SendBatch::destination_of(const Endpoint& endpoint) {
  const std::size_t mask = slots_.size() - 1;
  std::size_t slot = EndpointHash{}(endpoint)&mask;
  while (slots_[slot] != 0) {
    if (destinations_[slots_[slot] - 1].endpoint == endpoint) return slots_[slot] - 1;
    slot = (slot + 1) & mask;
  }
  Destination& destination = destinations_.emplace_back();
  destination.endpoint = endpoint;
  destination.slot = slot;
  slots_[slot] = static_cast<std::uint32_t>(destinations_.size());
  return destinations_.size() - 1;
}

void SendBatch::forget_destinations() {
  for (const Destination& destination : destinations_) slots_[destination.slot] = 0;
  destinations_.clear();
}

void SendBatch::address_destinations(const UdpSocket& socket) {
  const OwnAddresses* own = socket.own_addresses();
  for (Destination& destination : destinations_) {
    destination.reachable =
        to_socket_address(destination.endpoint, socket.family(), destination.address);
    if (own != nullptr) destination.own = own->find(destination.endpoint);
  }
}

void SendBatch::cut_trains(UdpCounters& counters) {
  trains_.clear();
  for (std::size_t d = 0; d < destinations_.size(); ++d) {
    const Destination& destination = destinations_[d];
    if (!destination.reachable) {
      counters.add(UdpCounter::kLostOther, destination.count);
      continue;
    }
    const std::size_t end = destination.first + destination.count;
    for (std::size_t packet = destination.first; packet < end;) {
      Train& train = trains_.emplace_back(Train{packet, 0, 0, d});
      do {
        ++train.count;
        train.bytes += packets_[packet].iov_len;
        ++packet;
      } while (packet < end && fits(train, packet));
    }
  }
}

bool SendBatch::fits(const Train& train, std::size_t packet) const {
  const iovec& head = packets_[train.first];
  const iovec& last = packets_[packet - 1];
  return train.count < max_segments_ && last.iov_len == head.iov_len &&
         packets_[packet].iov_len <= head.iov_len &&
         train.bytes + packets_[packet].iov_len <= kMaxTrainBytes &&
         stream_of(packets_[packet]) == stream_of(head);
}

bool SendBatch::send_trains(const UdpSocket& socket, UdpCounters& counters) {
  bool all_at_once = true;
  for (std::size_t next = 0; next < trains_.size();) {
    const std::size_t wanted = std::min(kMessages, trains_.size() - next);
    for (std::size_t i = 0; i < wanted; ++i) {
      prepare(trains_[next + i], headers_[i].msg_hdr, controls_[i]);
    }
    const int result = sendmmsg(socket.fd(), headers_.data(), static_cast<unsigned>(wanted), 0);
    const std::size_t sent = result > 0 ? static_cast<std::size_t>(result) : 0;
    for (std::size_t i = 0; i < sent; ++i) note_sent(trains_[next + i], counters);
    next += sent;
    // sendmmsg stops at the first train that it cannot send and may lose its errno, so send that
    // train again alone.
    if (sent < wanted) {
      all_at_once = false;
      send_with_care(socket, trains_[next++], counters);
    }
  }
  return all_at_once;
}

void SendBatch::send_with_care(const UdpSocket& socket, const Train& train, UdpCounters& counters) {
  const int problem = try_to_send(socket, train);
  if (problem == 0) return note_sent(train, counters);
  if (train.count == 1) return counters.add(loss_of(problem));
  switch (problem) {
    case EAGAIN: return counters.add(UdpCounter::kLostQueueFull, train.count);
    case ENOBUFS: return send_what_fits(socket, train, counters);
    default: return send_singly(socket, train, problem, counters);
  }
}

// The interface's queue has no room for the train, but may have some for a part of it. Then only
// the packets that exceed the queue are lost, not the whole train.
void SendBatch::send_what_fits(const UdpSocket& socket, const Train& train, UdpCounters& counters) {
  const std::size_t end = train.first + train.count;
  for (std::size_t first = train.first, count = train.count / 2; first < end;) {
    const Train part = part_of(train, first, std::min(count, end - first));
    if (try_to_send(socket, part) == 0) {
      note_sent(part, counters);
      first += part.count;
    } else if (part.count > 1) {
      count = part.count / 2;
    } else {
      return counters.add(UdpCounter::kLostQueueFull, end - first);
    }
  }
}

// Sends the packets one by one, which shows whether the kernel refuses the train or its packets.
void SendBatch::send_singly(const UdpSocket& socket, const Train& train, int problem,
                            UdpCounters& counters) {
  bool all_sent = true;
  for (std::size_t i = 0; i < train.count; ++i) {
    const Train alone = part_of(train, train.first + i, 1);
    const int reason = try_to_send(socket, alone);
    if (reason == 0) {
      note_sent(alone, counters);
    } else {
      counters.add(loss_of(reason));
      all_sent = false;
    }
  }
  if (all_sent && refuses_segments(problem)) {
    max_segments_ = 1;
    counters.add(UdpCounter::kSegmentsRefused);
  }
}

SendBatch::Train SendBatch::part_of(const Train& train, std::size_t first,
                                    std::size_t count) const {
  Train part{first, count, 0, train.destination};
  for (std::size_t i = 0; i < count; ++i) part.bytes += packets_[first + i].iov_len;
  return part;
}

// Returns 0 or the errno. A pending ICMP error makes one call fail with its errno, so only a
// repeated failure counts.
int SendBatch::try_to_send(const UdpSocket& socket, const Train& train) {
  msghdr message{};
  ControlBuffer control{};
  prepare(train, message, control);
  int problem = 0;
  for (int failures = 0; failures < 3;) {
    if (sendmsg(socket.fd(), &message, 0) >= 0) return 0;
    problem = errno;
    if (problem == ENOBUFS) return problem;  // never comes from an ICMP error
    if (problem == EAGAIN) {
      if (!wait_until_writable(socket)) return problem;
    } else if (problem != EINTR) {
      ++failures;
    }
  }
  return problem;
}

void SendBatch::prepare(const Train& train, msghdr& message, ControlBuffer& control) {
  Destination& destination = destinations_[train.destination];
  message = {};
  message.msg_name = &destination.address.base;
  message.msg_namelen = destination.address.length;
  message.msg_iov = &packets_[train.first];
  message.msg_iovlen = train.count;
  message.msg_control = control.bytes;
  if (train.count > 1) {
    const auto segment = static_cast<std::uint16_t>(packets_[train.first].iov_len);
    append_control(message, SOL_UDP, UDP_SEGMENT, segment);
  }
  if (destination.own != nullptr) {
    append_own_address(message, destination.address.base.sa_family, *destination.own);
  }
}

void SendBatch::replenish_patience() {
  if (patience_ == Patience::kOwn) return;
  const auto since = std::chrono::steady_clock::now() - waited_last_;
  patience_left_ =
      std::min<std::chrono::steady_clock::duration>(patience_left_ + since / 10, kLongestWait);
}

// Bounds all waits of one send() together: meanwhile the node reads no packets.
bool SendBatch::wait_until_writable(const UdpSocket& socket) {
  using std::chrono::steady_clock;
  replenish_patience();
  const auto patience = std::chrono::floor<std::chrono::milliseconds>(patience_left_);
  if (patience.count() <= 0) return false;
  const steady_clock::time_point begin = steady_clock::now();
  pollfd waiting{socket.fd(), POLLOUT, 0};
  const int ready = poll(&waiting, 1, static_cast<int>(patience.count()));
  waited_last_ = steady_clock::now();
  patience_left_ -= waited_last_ - begin;
  return ready > 0 && (waiting.revents & POLLOUT) != 0;
}

void SendBatch::note_sent(const Train& train, UdpCounters& counters) {
  const Endpoint& to = destinations_[train.destination].endpoint;
  const iovec& head = packets_[train.first];
  sent_heads_.add(to, {static_cast<const std::uint8_t*>(head.iov_base), head.iov_len});
  counters.add(UdpCounter::kTrainsOut);
  counters.add(UdpCounter::kDatagramsOut, train.count);
  counters.add(UdpCounter::kBytesOut, train.bytes);
  counters.add(UdpCounter::kIpBytesOut, train.bytes + train.count * ip_udp_header_bytes(to));
}

}  // namespace atp
