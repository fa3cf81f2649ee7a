#include "experiments/papers/slot_pool/pool_socket.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace slot_pool {
namespace {

constexpr std::size_t kBatch = 64;
constexpr int kBufferBytes = 8 << 20;

// A batch for sendmmsg and recvmmsg over datagrams elsewhere.
struct Batch {
  std::array<mmsghdr, kBatch> messages{};
  std::array<iovec, kBatch> parts{};

  void set(std::size_t i, sockaddr_in& peer, PoolPacket& packet, std::size_t bytes) {
    parts[i] = {&packet, bytes};
    messages[i].msg_hdr.msg_name = &peer;
    messages[i].msg_hdr.msg_namelen = sizeof(peer);
    messages[i].msg_hdr.msg_iov = &parts[i];
    messages[i].msg_hdr.msg_iovlen = 1;
  }
};

// As much as the system permits: without root, that is less.
void set_buffer(int fd, int forced, int permitted) {
  if (setsockopt(fd, SOL_SOCKET, forced, &kBufferBytes, sizeof(kBufferBytes)) == 0) return;
  setsockopt(fd, SOL_SOCKET, permitted, &kBufferBytes, sizeof(kBufferBytes));
}

}  // namespace

std::optional<sockaddr_in> parse_address(const char* text) {
  const std::string all = text;
  const std::size_t colon = all.rfind(':');
  if (colon == std::string::npos) return std::nullopt;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  const int port = std::atoi(all.c_str() + colon + 1);
  if (port <= 0 || port > 65535) return std::nullopt;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  if (inet_pton(AF_INET, all.substr(0, colon).c_str(), &address.sin_addr) != 1) return std::nullopt;
  return address;
}

PoolSocket::PoolSocket(const sockaddr_in* listen_at) : incoming_(kBatch) {
  fd_ = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  const auto* address = reinterpret_cast<const sockaddr*>(listen_at);
  if (fd_ < 0 || (listen_at != nullptr && bind(fd_, address, sizeof(*listen_at)) != 0)) {
    std::perror("cannot open a UDP socket");
    std::exit(1);
  }
  set_buffer(fd_, SO_RCVBUFFORCE, SO_RCVBUF);
  set_buffer(fd_, SO_SNDBUFFORCE, SO_SNDBUF);
}

PoolSocket::~PoolSocket() { close(fd_); }

void PoolSocket::flush() {
  std::size_t done = 0;
  while (done < outgoing_.size()) {
    Batch batch;
    const std::size_t count = std::min(kBatch, outgoing_.size() - done);
    for (std::size_t i = 0; i < count; ++i) {
      Datagram& one = outgoing_[done + i];
      batch.set(i, one.peer, one.packet, one.packet.bytes());
    }
    const int sent = sendmmsg(fd_, batch.messages.data(), static_cast<unsigned>(count), 0);
    if (sent <= 0 && errno == EINTR) continue;
    unsent_ += sent <= 0;
    done += static_cast<std::size_t>(std::max(sent, 1));
  }
  outgoing_.clear();
}

void PoolSocket::receive(std::optional<Time> due, const Handle& handle) {
  using std::chrono::nanoseconds;
  pollfd readable{fd_, POLLIN, 0};
  timespec wait{};
  if (due) {
    const auto left = std::chrono::duration_cast<nanoseconds>(*due - Time::clock::now());
    const auto ns = std::max(left, nanoseconds{0}).count();
    wait = {ns / 1'000'000'000, ns % 1'000'000'000};
  }
  if (ppoll(&readable, 1, due ? &wait : nullptr, nullptr) <= 0) return;
  Batch batch;
  for (std::size_t i = 0; i < kBatch; ++i) {
    batch.set(i, incoming_[i].peer, incoming_[i].packet, sizeof(PoolPacket));
  }
  const int received = recvmmsg(fd_, batch.messages.data(), kBatch, 0, nullptr);
  for (int i = 0; i < received; ++i) {
    const Datagram& one = incoming_[static_cast<std::size_t>(i)];
    const mmsghdr& message = batch.messages[static_cast<std::size_t>(i)];
    if (one.packet.fits(message.msg_len)) handle(one.packet, one.peer);
  }
}

}  // namespace slot_pool
