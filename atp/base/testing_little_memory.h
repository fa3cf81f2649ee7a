#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <cstddef>
#include <fstream>

#include "atp/base/check.h"

// For tests: a process to which the system gives little more memory, whatever a node's own limit
// allows.

namespace atp {

// While it lives, large pieces of memory beyond `room` are refused. What the process has mapped
// before, such as its heap, it may go on using.
class LittleMemory {
 public:
  explicit LittleMemory(std::size_t room) {
    ATP_CHECK(getrlimit(RLIMIT_AS, &before_) == 0);
    std::size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    rlimit limit = before_;
    limit.rlim_cur = pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) + room;
    ATP_CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
  }
  ~LittleMemory() { setrlimit(RLIMIT_AS, &before_); }
  LittleMemory(const LittleMemory&) = delete;
  LittleMemory& operator=(const LittleMemory&) = delete;

 private:
  rlimit before_{};
};

}  // namespace atp
