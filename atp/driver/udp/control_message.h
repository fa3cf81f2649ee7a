#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

#include "atp/driver/udp/own_addresses.h"

// The control messages (cmsg) of a datagram: the segment size of a train, the local address that a
// datagram arrived at or leaves from, and its ECN mark.

namespace atp {

// Room for all control messages of one train, in either direction.
struct alignas(cmsghdr) ControlBuffer {
  static constexpr std::size_t kBytes =
      2 * CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(in6_pktinfo));
  std::uint8_t bytes[kBytes];
};

// Appends one to a message whose msg_control has room for it.
template <class T>
void append_control(msghdr& message, int level, int type, const T& value) {
  auto* header = reinterpret_cast<cmsghdr*>(static_cast<std::uint8_t*>(message.msg_control) +
                                            message.msg_controllen);
  header->cmsg_level = level;
  header->cmsg_type = type;
  header->cmsg_len = CMSG_LEN(sizeof value);
  std::memcpy(CMSG_DATA(header), &value, sizeof value);
  message.msg_controllen += CMSG_SPACE(sizeof value);
}

// Makes the kernel report with each datagram the local address that it arrived at.
bool ask_for_own_address(int fd, int family);
std::optional<OwnAddresses::Address> read_own_address(const cmsghdr& header);
// Makes the datagram leave from `own`, on a socket of `family`.
void append_own_address(msghdr& message, int family, const OwnAddresses::Address& own);

// Sends everything as ECN-capable (RFC 3168), so that queues on the path mark packets before they
// drop any, and makes the kernel report the marks. If the kernel refuses, there is no such signal.
void use_ecn(int fd, int family);
bool congestion_experienced(const cmsghdr& header);

}  // namespace atp
