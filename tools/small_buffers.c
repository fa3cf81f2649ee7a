// Preloaded into a program, limits its socket buffers to the kernel's defaults: net.core.rmem_max
// and wmem_max of 212,992 bytes, which network namespaces do not override.
#define _GNU_SOURCE
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { kDefaultLimit = 212992 };

int setsockopt(int fd, int level, int option, const void* value, socklen_t length) {
  int bytes = 0;
  if (level == SOL_SOCKET && (option == SO_RCVBUF || option == SO_SNDBUF) &&
      length >= sizeof bytes) {
    memcpy(&bytes, value, sizeof bytes);
    if (bytes > kDefaultLimit) {
      bytes = kDefaultLimit;
      value = &bytes;
      length = sizeof bytes;
    }
  }
  return (int)syscall(SYS_setsockopt, fd, level, option, value, length);
}
