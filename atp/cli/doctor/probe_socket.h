#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "atp/base/result.h"
#include "atp/cli/doctor/facts.h"
#include "atp/wire/endpoint.h"

// A UDP socket to one node that reports the fate of single packets: the node's answers, or who
// refused them and why. (The driver's sockets serve many peers and need less.)

namespace atp {

class ProbeSocket {
 public:
  using Time = std::chrono::steady_clock::time_point;

  struct Heard {
    std::span<const std::uint8_t> packet;  // from the node; valid until the next call
    Refused refused = Refused::kNo;
    std::string refused_by;
    std::size_t too_big_for = 0;  // the reported path MTU; 0: none reported
    bool nothing() const { return packet.empty() && refused == Refused::kNo && too_big_for == 0; }
  };

  static Result<ProbeSocket> connect(const Endpoint& to);
  ProbeSocket(ProbeSocket&& other) noexcept;
  ProbeSocket& operator=(ProbeSocket&&) = delete;
  ~ProbeSocket();

  const std::string& own_host() const { return own_host_; }
  // Returns Refused::kByThisHost if this host's firewall blocks it. Never fragments.
  Refused send(std::span<const std::uint8_t> packet) const;
  // Waits for the first answer or error; nothing at the time-out.
  Heard listen(Time until);

 private:
  explicit ProbeSocket(int fd) : fd_(fd), bytes_(std::size_t{1} << 16) {}
  Heard next_error();

  int fd_;
  std::string own_host_;
  std::vector<std::uint8_t> bytes_;
};

}  // namespace atp
