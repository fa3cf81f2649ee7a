#pragma once

#include <cstdint>
#include <vector>

#include "atp/base/result.h"

// The descriptors that a thread waits for, each with an id (epoll).

namespace atp {

class Poller {
 public:
  struct Ready {
    std::uint64_t id = 0;
    std::uint32_t events = 0;
  };

  static Result<Poller> create();
  Poller(Poller&& other) noexcept;
  Poller(const Poller&) = delete;
  ~Poller();

  // False, with errno: the system has no room for one more. Nobody would hear from that descriptor,
  // so the caller must give it up or try again.
  [[nodiscard]] bool add(int fd, std::uint64_t id, std::uint32_t events);
  void change(int fd, std::uint64_t id, std::uint32_t events);
  void remove(int fd);
  std::vector<Ready> wait(int timeout_ms);  // -1: forever

 private:
  explicit Poller(int fd) : fd_(fd) {}
  int fd_;
};

}  // namespace atp
