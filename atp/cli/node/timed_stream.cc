#include "atp/cli/node/timed_stream.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace atp {

TimedStream::TimedStream(int fd, std::chrono::milliseconds patience, int stop_fd)
    : fd_(fd), stop_fd_(stop_fd), end_(std::chrono::steady_clock::now() + patience) {}

bool TimedStream::wait(short events) {
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(end_ - std::chrono::steady_clock::now());
    pollfd waiting[] = {{fd_, events, 0}, {stop_fd_, POLLIN, 0}};
    if (left.count() <= 0) {
      timed_out_ = true;
      return false;
    }
    const int ready = poll(waiting, 2, static_cast<int>(left.count()));
    if (ready > 0) return waiting[1].revents == 0;
    if (ready < 0 && errno != EINTR) return false;
  }
}

std::size_t TimedStream::read_some(char* at, std::size_t size) {
  while (wait(POLLIN)) {
    const ssize_t got = recv(fd_, at, size, 0);
    received_ = received_ || got > 0;
    if (got >= 0) return static_cast<std::size_t>(got);
    if (errno != EAGAIN && errno != EINTR) break;
  }
  failed_ = true;
  return 0;
}

std::optional<std::string> TimedStream::read_line(std::size_t most) {
  std::string line;
  while (line.size() < most) {
    char byte;
    if (read_some(&byte, 1) == 0) return std::nullopt;
    line += byte;
    if (byte == '\n') return line;
  }
  return std::nullopt;
}

std::optional<std::string> TimedStream::read_all(std::size_t most) {
  std::string text;
  char bytes[4096];
  while (const std::size_t got = read_some(bytes, sizeof bytes)) {
    text.append(bytes, got);
    if (text.size() > most) return std::nullopt;
  }
  if (failed_) return std::nullopt;
  return text;
}

bool TimedStream::write(std::string_view text) {
  while (!text.empty()) {
    if (!wait(POLLOUT)) return false;
    const ssize_t put = send(fd_, text.data(), text.size(), MSG_NOSIGNAL);
    if (put < 0 && errno != EAGAIN && errno != EINTR) return false;
    if (put > 0) text.remove_prefix(static_cast<std::size_t>(put));
  }
  return true;
}

void TimedStream::finish() {
  shutdown(fd_, SHUT_WR);
  char byte;
  while (read_some(&byte, 1) > 0) {
  }
}

}  // namespace atp
