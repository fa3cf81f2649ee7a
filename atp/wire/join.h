#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "atp/wire/body_field.h"
#include "atp/wire/cause.h"
#include "atp/wire/endpoint.h"
#include "atp/wire/number_format.h"

// The bodies of JOIN, JOIN_ACK and LEAVE (docs/inside/protocol §3.1). Each is a value with write()
// and read(); read() returns nothing unless the body has exactly its length and every field is in
// range.

namespace atp {

// The hops that a JOIN still has to pass, or has passed. Eight are more than any tree needs.
class Route {
 public:
  static constexpr std::size_t kMaxHops = 8;

  bool push_back(const Endpoint& hop) {
    if (size_ == kMaxHops) return false;
    hops_[size_++] = hop;
    return true;
  }
  void pop_front() {
    for (std::size_t i = 1; i < size_; ++i) hops_[i - 1] = hops_[i];
    hops_[--size_] = Endpoint{};
  }
  void clear() { *this = Route{}; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const Endpoint& operator[](std::size_t i) const { return hops_[i]; }
  const Endpoint& front() const { return hops_[0]; }
  const Endpoint& back() const { return hops_[size_ - 1u]; }
  std::span<const Endpoint> hops() const { return {hops_.data(), size_}; }
  bool operator==(const Route&) const = default;

 private:
  std::array<Endpoint, kMaxHops> hops_{};
  std::uint8_t size_ = 0;
};

struct Join {
  std::uint64_t nonce = 0;           // drawn by the worker's socket at its start; tells twins apart
  std::uint64_t server_boot_id = 0;  // of the JOIN_ACK that made it a member; 0: none yet
  std::uint16_t world_size = 0;
  std::uint16_t first_stream = 0;
  std::uint16_t stream_count = 0;
  std::uint16_t max_value_count = 0;  // largest K that the path so far carries
  std::uint8_t version_min = ATP_VERSION;
  std::uint8_t version_max = ATP_VERSION;
  bool detached = false;
  NumberFormat number_format = NumberFormat::kFixed;
  std::uint32_t detachments = 0;
  // What the receiver has last told this sender in STATUS *prove*; 0: nothing yet.
  std::uint64_t proof = 0;
  Route remaining;  // next hop first, the server last
  Route recorded;   // switches passed, the worker's own first

  static constexpr std::size_t kBytes = join_field::kEnd;

  void write(std::uint8_t* at) const;
  static std::optional<Join> read(std::span<const std::uint8_t> body);
  bool operator==(const Join&) const = default;
};

struct JoinAck {
  static constexpr std::size_t kBytes = join_ack_field::kEnd;

  std::uint64_t nonce = 0;
  std::uint64_t server_boot_id = 0;  // never 0
  double scale = 1;                  // of NumberFormat::kFixed
  std::uint32_t detachments = 0;
  std::uint32_t lease_ms = 0;
  std::uint32_t wmax = 0;  // largest window, in packets per stream
  std::uint16_t value_count = 0;
  std::uint16_t world_size = 0;
  std::uint16_t first_stream = 0;
  std::uint16_t stream_count = 0;
  bool detached = false;
  NumberFormat number_format = NumberFormat::kFixed;
  std::uint16_t linear_aggregators = 0;  // of linear placement; 0: placement by hash

  void write(std::uint8_t* at) const;
  static std::optional<JoinAck> read(std::span<const std::uint8_t> body);
  bool operator==(const JoinAck&) const = default;
};

struct Leave {
  static constexpr std::size_t kBytes = leave_field::kEnd;

  std::uint64_t nonce = 0;
  CauseText cause;  // empty: none given

  void write(std::uint8_t* at) const;
  static std::optional<Leave> read(std::span<const std::uint8_t> body);
  bool operator==(const Leave&) const = default;
};

}  // namespace atp
