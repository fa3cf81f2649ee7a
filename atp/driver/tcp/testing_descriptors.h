#pragma once

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <vector>

// For tests: a time in which this process has no free descriptors, but for a few.

namespace atp {

class DescriptorsTaken {
 public:
  explicit DescriptorsTaken(std::size_t but) {
    getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit now{.rlim_cur = 300, .rlim_max = before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &now);
    for (int fd = 0; (fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;) taken_.push_back(fd);
    for (; but > 0 && !taken_.empty(); --but) {
      close(taken_.back());
      taken_.pop_back();
    }
  }
  ~DescriptorsTaken() {
    for (const int fd : taken_) close(fd);
    setrlimit(RLIMIT_NOFILE, &before_);
  }
  DescriptorsTaken(const DescriptorsTaken&) = delete;
  DescriptorsTaken& operator=(const DescriptorsTaken&) = delete;

 private:
  rlimit before_{};
  std::vector<int> taken_;
};

}  // namespace atp
