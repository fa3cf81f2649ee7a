#pragma once

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "atp/base/check.h"

// For tests: how many threads a process has, and one that cannot start more, as if it had reached
// its limit.

namespace atp::testing {

inline std::size_t thread_count() {
  return static_cast<std::size_t>(
      std::distance(std::filesystem::directory_iterator("/proc/self/task"), {}));
}

// Whether the threads beyond `count` have ended. Waits: the kernel lists a thread for a moment
// after it has been joined.
inline bool only_threads_left(std::size_t count) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (thread_count() > count) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

// While it lives, there is room for the stacks of this many more threads. (A limit on threads would
// not do: it does not apply to root.)
class RoomForThreads {
 public:
  explicit RoomForThreads(std::size_t count) {
    ATP_CHECK(pthread_getattr_default_np(&attributes_before_) == 0);
    ATP_CHECK(getrlimit(RLIMIT_AS, &limit_before_) == 0);
    pthread_attr_t attributes = attributes_before_;
    ATP_CHECK(pthread_attr_setstacksize(&attributes, kStack) == 0);
    ATP_CHECK(pthread_setattr_default_np(&attributes) == 0);
    rlimit limit = limit_before_;
    limit.rlim_cur = bytes_mapped() + count * kStack + kStack / 2;
    ATP_CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
  }
  ~RoomForThreads() {
    setrlimit(RLIMIT_AS, &limit_before_);
    pthread_setattr_default_np(&attributes_before_);
  }
  RoomForThreads(const RoomForThreads&) = delete;
  RoomForThreads& operator=(const RoomForThreads&) = delete;

 private:
  static constexpr std::size_t kStack = std::size_t{1}
                                        << 30;  // everything else is small compared with it

  static std::size_t bytes_mapped() {
    std::size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    return pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  }

  pthread_attr_t attributes_before_;
  rlimit limit_before_;
};

}  // namespace atp::testing
