#include "atp/driver/udp/receive_batch.h"

#include <linux/errqueue.h>
#include <netinet/in.h>
#include <netinet/udp.h>

#include <cerrno>
#include <cstring>

namespace atp {
namespace {

bool by_icmp(const sock_extended_err& error) {
  return error.ee_origin == SO_EE_ORIGIN_ICMP || error.ee_origin == SO_EE_ORIGIN_ICMP6;
}

}  // namespace

ReceiveBatch::ReceiveBatch()
    : arena_(std::make_unique_for_overwrite<std::uint8_t[]>(kTrains * kTrainBytes)) {
  for (std::size_t i = 0; i < kTrains; ++i) {
    buffers_[i] = {arena_.get() + i * kTrainBytes, kTrainBytes};
    headers_[i].msg_hdr.msg_name = &addresses_[i].base;
    headers_[i].msg_hdr.msg_iov = &buffers_[i];
    headers_[i].msg_hdr.msg_iovlen = 1;
    headers_[i].msg_hdr.msg_control = controls_[i].bytes;
  }
}

std::size_t ReceiveBatch::fetch(const UdpSocket& socket, Received& received) {
  // The kernel has overwritten the lengths with what it used.
  for (mmsghdr& header : headers_) {
    header.msg_hdr.msg_namelen = sizeof(sockaddr_in6);
    header.msg_hdr.msg_controllen = ControlBuffer::kBytes;
  }
  // Each pending ICMP error makes one call fail with its errno and stays in the error queue. Retry
  // a few times; more of them can wait for the next round.
  for (int attempt = 0; attempt < 4; ++attempt) {
    const int got = recvmmsg(socket.fd(), headers_.data(), kTrains, MSG_DONTWAIT, nullptr);
    if (got >= 0) {
      received.more = static_cast<std::size_t>(got) == kTrains;
      return static_cast<std::size_t>(got);
    }
    if (errno == EAGAIN) return 0;
    received.failed = true;
  }
  received.more = true;
  return 0;
}

ReceiveBatch::Train ReceiveBatch::train_at(std::size_t i) const {
  const mmsghdr& header = headers_[i];
  Train train;
  train.from = to_endpoint(addresses_[i]);
  train.bytes = {static_cast<std::uint8_t*>(buffers_[i].iov_base), header.msg_len};
  train.segment = train.bytes.size();
  msghdr message = header.msg_hdr;
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level == SOL_UDP && c->cmsg_type == UDP_GRO) {
      int segment = 0;
      std::memcpy(&segment, CMSG_DATA(c), sizeof segment);
      if (segment > 0) train.segment = static_cast<std::size_t>(segment);
    } else if (congestion_experienced(*c)) {
      train.congested = true;
    } else if (const auto own = read_own_address(*c)) {
      train.own = own;
    }
  }
  return train;
}

void ReceiveBatch::count(const Train& train, UdpCounters& counters) {
  const std::size_t bytes = train.bytes.size();
  const std::size_t datagrams =
      train.segment == 0 ? 1 : (bytes + train.segment - 1) / train.segment;
  counters.add(UdpCounter::kTrainsIn);
  counters.add(UdpCounter::kDatagramsIn, datagrams);
  counters.add(UdpCounter::kBytesIn, bytes);
  if (train.congested) counters.add(UdpCounter::kCongestedIn, datagrams);
  counters.add(UdpCounter::kIpBytesIn, bytes + datagrams * ip_udp_header_bytes(train.from));
}

std::optional<ReceiveBatch::PathError> ReceiveBatch::next_error(const UdpSocket& socket,
                                                                const SentHeads& sent) {
  SocketAddress address{};
  struct alignas(cmsghdr) {
    std::uint8_t bytes[512];
  } control;
  std::array<std::uint8_t, SentHeads::kMostBytes> quote;
  iovec buffer{quote.data(), quote.size()};
  msghdr message{};
  message.msg_name = &address.base;
  message.msg_namelen = sizeof address.ipv6;
  message.msg_iov = &buffer;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof control.bytes;
  const ssize_t quoted = recvmsg(socket.fd(), &message, MSG_ERRQUEUE | MSG_DONTWAIT);
  if (quoted < 0) return std::nullopt;

  PathError result;
  if (message.msg_namelen == 0) return result;
  result.destination = to_endpoint(address);
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    const bool is_error = (c->cmsg_level == SOL_IP && c->cmsg_type == IP_RECVERR) ||
                          (c->cmsg_level == SOL_IPV6 && c->cmsg_type == IPV6_RECVERR);
    if (!is_error) continue;
    sock_extended_err error{};
    std::memcpy(&error, CMSG_DATA(c), sizeof error);
    result.mtu = error.ee_info;
    const bool too_big = error.ee_errno == EMSGSIZE;
    if (!by_icmp(error)) {
      // From this host itself: a refused send was counted when its call failed.
      if (too_big) result.kind = PathError::Kind::kTooBig;
    } else if (!sent.contain(result.destination,
                             {quote.data(), static_cast<std::size_t>(quoted)})) {
      result.counted_as = UdpCounter::kIcmpUnproven;
    } else {
      result.kind = too_big ? PathError::Kind::kTooBig : PathError::Kind::kUnreachable;
      result.counted_as = too_big ? UdpCounter::kIcmpTooBig : UdpCounter::kIcmpUnreachable;
    }
  }
  return result;
}

}  // namespace atp
