#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

#include "atp/driver/udp/own_addresses.h"

// What travels beside a datagram between us and the kernel: the size of a train's segments, the one
// of this host's addresses that a datagram came to or leaves from, and whether it met congestion.

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

// Makes the kernel say with each datagram which of this host's addresses it came to.
bool ask_for_own_address(int fd, int family);
std::optional<OwnAddresses::Address> read_own_address(const cmsghdr& header);
// The datagram shall leave from `own`, on a socket of `family`.
void append_own_address(msghdr& message, int family, const OwnAddresses::Address& own);

// Sends everything as ECN-capable (RFC 3168), so that queues on the way mark it before they drop
// it, and makes the kernel say which datagrams were marked. A kernel that refuses leaves that
// signal out.
void use_ecn(int fd, int family);
bool congestion_experienced(const cmsghdr& header);

}  // namespace atp
