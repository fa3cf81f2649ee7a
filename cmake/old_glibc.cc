// libevent of Debian 12 calls two functions that glibc has had only since 2.36. Because they are
// defined here, they are not taken from the C library, and the program runs on systems with glibc
// 2.35, such as Ubuntu 22.04.
#include <sys/random.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

extern "C" {

void arc4random_buf(void* buffer, std::size_t bytes) noexcept {
  auto* at = static_cast<char*>(buffer);
  while (bytes > 0) {
    const ssize_t got = getrandom(at, bytes, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) std::abort();  // the callers have no way to go on without it
    at += got;
    bytes -= static_cast<std::size_t>(got);
  }
}

std::uint32_t arc4random() noexcept {
  std::uint32_t value = 0;
  arc4random_buf(&value, sizeof value);
  return value;
}

}  // extern "C"
