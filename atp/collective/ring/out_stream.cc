#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "atp/collective/ring/streams.h"

namespace atp {
namespace {

constexpr std::size_t kMaxParts = 8;

Moved send_parts(int fd, std::span<iovec> parts) {
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  const ssize_t sent = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent >= 0) return {.bytes = static_cast<std::size_t>(sent)};
  if (errno == EINTR) return {};
  if (errno == EAGAIN || errno == EWOULDBLOCK) return {.end = Moved::End::kBlocked};
  return {.end = Moved::End::kBroken, .error = errno};
}

}  // namespace

OutStream::OutStream(const std::optional<OperationHeader>& header, const Schedule& schedule)
    : header_(header), schedule_(schedule), bytes_(schedule.bytes_out()) {}

std::size_t OutStream::ready(std::size_t received) const {
  return header_bytes() + std::min(bytes_, schedule_.first.size() + received);
}

ConstBytes OutStream::segment(std::size_t index) const {
  if (index == 0) return header_ ? std::as_bytes(std::span(&*header_, 1)) : ConstBytes();
  return index == 1 ? schedule_.first : ConstBytes(schedule_.steps[index - 2].to);
}

// Collects the parts of the next `limit` bytes, as many as there is room for.
std::size_t OutStream::gather(std::size_t limit, std::span<iovec> parts) const {
  std::size_t count = 0;
  std::size_t offset = offset_;
  for (std::size_t index = segment_; limit > 0 && count < parts.size(); ++index) {
    const ConstBytes rest = segment(index).subspan(offset);
    const std::size_t bytes = std::min(rest.size(), limit);
    offset = 0;
    limit -= bytes;
    if (bytes == 0) continue;
    parts[count++] = {const_cast<std::byte*>(rest.data()), bytes};
  }
  return count;
}

void OutStream::advance(std::size_t bytes) {
  sent_ += bytes;
  while (bytes > 0) {
    const std::size_t rest = segment(segment_).size() - offset_;
    if (bytes < rest) {
      offset_ += bytes;
      return;
    }
    bytes -= rest;
    offset_ = 0;
    ++segment_;
  }
}

Moved OutStream::send(int fd, std::size_t received, std::size_t most) {
  std::array<iovec, kMaxParts> parts;
  const std::size_t count = gather(std::min(ready(received) - sent_, most), parts);
  const Moved moved = send_parts(fd, std::span(parts).first(count));
  advance(moved.bytes);
  return moved;
}

}  // namespace atp
