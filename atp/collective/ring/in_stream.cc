#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "atp/collective/ring/streams.h"

namespace atp {
namespace {

// Limits a receive, so that received data goes out again before more comes in.
constexpr std::size_t kMaxInPlace = 512 * 1024;

Moved receive_parts(int fd, std::span<iovec> parts) {
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  const ssize_t got = recvmsg(fd, &message, MSG_DONTWAIT);
  if (got > 0) return {.bytes = static_cast<std::size_t>(got)};
  if (got == 0) return {.end = Moved::End::kClosed};
  if (errno == EINTR) return {};
  if (errno == EAGAIN || errno == EWOULDBLOCK) return {.end = Moved::End::kBlocked};
  return {.end = Moved::End::kBroken, .error = errno};
}

}  // namespace

InStream::InStream(const std::optional<OperationHeader>& expected, const Schedule& schedule)
    : expected_(expected), schedule_(schedule), bytes_(schedule.bytes_in()) {
  skip_empty_steps();
}

void InStream::skip_empty_steps() {
  while (step_ < schedule_.steps.size() && offset_ == step().to.size()) {
    ++step_;
    offset_ = 0;
  }
}

Moved InStream::receive(int fd, Bytes stage) {
  if (!begun()) return receive_header(fd, stage);
  // Data that need not be added goes to its place without a copy.
  const bool in_place = carried_ == 0 && !step().take;
  return in_place ? receive_in_place(fd) : receive_staged(fd, stage);
}

// Also takes whatever block data has come with the header.
Moved InStream::receive_header(int fd, Bytes stage) {
  std::byte* header = reinterpret_cast<std::byte*>(&found_);
  std::array<iovec, 2> parts{iovec{header + header_bytes_, sizeof found_ - header_bytes_},
                             iovec{stage.data(), std::min(stage.size(), bytes_)}};
  const Moved moved = receive_parts(fd, parts);
  const std::size_t of_header = std::min(moved.bytes, parts[0].iov_len);
  header_bytes_ += of_header;
  if (begun() && !mismatch()) take(stage.first(moved.bytes - of_header));
  return moved;
}

Moved InStream::receive_staged(int fd, Bytes stage) {
  std::memcpy(stage.data(), carry_, carried_);
  const std::size_t most = std::min(stage.size(), bytes_ - received_) - carried_;
  iovec part{stage.data() + carried_, most};
  const Moved moved = receive_parts(fd, std::span(&part, 1));
  const std::size_t bytes = carried_ + moved.bytes;
  carried_ = 0;
  take(stage.first(bytes));
  return moved;
}

Moved InStream::receive_in_place(int fd) {
  const Bytes rest = step().to.subspan(offset_);
  iovec part{rest.data(), std::min(rest.size(), kMaxInPlace)};
  const Moved moved = receive_parts(fd, std::span(&part, 1));
  offset_ += moved.bytes;
  received_ += moved.bytes;
  skip_empty_steps();
  return moved;
}

// Adds whole elements and keeps a partial one for the next call.
void InStream::take(ConstBytes bytes) {
  while (!bytes.empty()) {
    const std::size_t room = step().to.size() - offset_;
    std::size_t count = std::min(bytes.size(), room);
    if (step().take) {
      count -= count % schedule_.element;
      if (count == 0) break;
      step().take(offset_, bytes.first(count));
    } else {
      std::memcpy(step().to.data() + offset_, bytes.data(), count);
    }
    offset_ += count;
    received_ += count;
    bytes = bytes.subspan(count);
    skip_empty_steps();
  }
  carried_ = bytes.size();
  std::memcpy(carry_, bytes.data(), carried_);
}

}  // namespace atp
