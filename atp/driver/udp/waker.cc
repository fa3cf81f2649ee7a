#include "atp/driver/udp/waker.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "atp/base/errno_text.h"

namespace atp {

static_assert(std::atomic<bool>::is_always_lock_free, "stop() is called in signal handlers");

Result<std::unique_ptr<Waker>> Waker::create() {
  const int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (fd < 0) return Error{std::string("cannot create an eventfd: ") + errno_text(errno)};
  return std::unique_ptr<Waker>(new Waker(fd));
}

Waker::~Waker() { close(fd_); }

void Waker::wake() {
  const std::uint64_t one = 1;
  const int saved = errno;  // a signal handler must preserve errno
  // Writing fails only if the counter is full, and then the loop is awake already.
  [[maybe_unused]] const ssize_t written = write(fd_, &one, sizeof one);
  errno = saved;
}

void Waker::stop() {
  stopped_.store(true, std::memory_order_release);
  wake();
}

void Waker::drain() {
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = read(fd_, &count, sizeof count);
}

}  // namespace atp
