#include "atp/driver/tcp/poller.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "atp/base/check.h"

namespace atp {

Result<Poller> Poller::create() {
  const int fd = epoll_create1(EPOLL_CLOEXEC);
  if (fd < 0) {
    return Error{std::string("cannot create an epoll descriptor: ") + std::strerror(errno)};
  }
  return Poller(fd);
}

Poller::Poller(Poller&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

Poller::~Poller() {
  if (fd_ >= 0) close(fd_);
}

bool Poller::add(int fd, std::uint64_t id, std::uint32_t events) {
  epoll_event event{.events = events, .data = {.u64 = id}};
  return epoll_ctl(fd_, EPOLL_CTL_ADD, fd, &event) == 0;
}

// Needs no memory, so it fails only if the descriptor was never added.
void Poller::change(int fd, std::uint64_t id, std::uint32_t events) {
  epoll_event event{.events = events, .data = {.u64 = id}};
  const int failed = epoll_ctl(fd_, EPOLL_CTL_MOD, fd, &event);
  ATP_CHECK(failed == 0);
}

void Poller::remove(int fd) { epoll_ctl(fd_, EPOLL_CTL_DEL, fd, nullptr); }

std::vector<Poller::Ready> Poller::wait(int timeout_ms) {
  std::array<epoll_event, 64> events;
  const int count = epoll_wait(fd_, events.data(), events.size(), timeout_ms);
  std::vector<Ready> ready;
  ready.reserve(events.size());
  for (int i = 0; i < count; ++i) ready.push_back({events[i].data.u64, events[i].events});
  return ready;
}

}  // namespace atp
