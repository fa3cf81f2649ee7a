#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "atp/base/result.h"
#include "atp/collective/shm/rendezvous.h"

// What rank 0 and the other ranks of a host have in common when they meet.

namespace atp {

// The first message of a rank that calls; in host byte order, since both are on one machine.
struct RendezvousHello {
  static constexpr std::uint32_t kMagic = 0x41545037;  // identifies this version of the segment
  std::uint32_t magic = kMagic;
  std::uint32_t rank = 0;
  std::uint32_t world_size = 0;
  std::uint32_t patience_ms = 0;  // how long it will wait from now on
  std::array<char, 64> numbers{};

  void set_numbers(std::string_view text);
  std::string_view numbers_text() const;
};

class RendezvousSide {
 protected:
  using Clock = std::chrono::steady_clock;
  // Messages after the first are texts; an empty one means success.
  static constexpr std::size_t kLongestText = 1000;

  explicit RendezvousSide(const HostRendezvousOptions& options);

  // Of the socket at which rank 0 listens.
  std::string name() const;
  SegmentShape shape() const;
  // Registers this process in the segment, before any rank starts.
  Result<HostPlace> take_place(Segment segment) const;

  Rank number_in_job(std::size_t rank) const;
  std::string rank_text(std::size_t rank) const;
  std::string waits_text(const std::string& whom) const;
  Error lost(const std::string& whom, const std::string& why) const;
  Error has_no_socket(const Error& why) const;

  const HostRendezvousOptions options_;
  const Clock::time_point begun_;
  Clock::time_point until_;
};

}  // namespace atp
