#pragma once

#include <gmock/gmock.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "atp/core/timing.h"
#include "atp/wire/packet_view.h"

// The packets that the tests of the judges of worker and server show them.

namespace atp::sim::judged {

using testing::IsEmpty;
using Bytes = std::vector<std::uint8_t>;

inline constexpr JobKey kJob{7, 8};
inline constexpr std::uint32_t kWmax = 4;
inline constexpr Endpoint kSwitch = Endpoint::ipv4(10, 0, 0, 1, 5501);
inline constexpr Endpoint kServer = Endpoint::ipv4(10, 0, 1, 1, 5500);
inline constexpr Endpoint kWorker = Endpoint::ipv4(10, 0, 2, 1, 7000);
inline constexpr Endpoint kOtherWorker = Endpoint::ipv4(10, 0, 2, 2, 7000);
inline constexpr Instant kStart{std::chrono::seconds(100)};

struct Of {
  std::uint64_t sequence = 0;
  unsigned flags = 0;
  std::uint32_t index = 512;
  std::uint32_t next_or_magnitude = 0;
  std::uint32_t operation = 77;
  RankSet ranks = RankSet::of(1);
  std::uint8_t hops = ATP_HOPS;
  std::uint8_t kind = ATP_KIND_SUM_FIXED;
  std::uint8_t part = 0;
};

inline Bytes packet(PacketType type, const Of& of) {
  atp_header h{};
  h.version = ATP_VERSION;
  h.type = static_cast<std::uint8_t>(type);
  h.flags = static_cast<std::uint8_t>(of.flags);
  h.bitmap_words = 1;
  h.job = kJob.job;
  h.incarnation = kJob.incarnation;
  h.value_count = type == PacketType::kGradient || type == PacketType::kParameter ? 1 : 0;
  h.sequence = of.sequence;
  h.aggregator_index = of.index;
  h.operation = of.operation;
  h.magnitude = type == PacketType::kGradient ? of.next_or_magnitude : 0;
  h.kind = of.kind;
  h.hops = of.hops;
  Bytes bytes(atp_packet_bytes(1, h.kind, h.value_count));
  write_packet_head(bytes.data(), h, of.ranks);
  if (type == PacketType::kParameter) {
    atp_store32(&bytes[ATP_AT_NEXT_INDEX], of.next_or_magnitude | of.part);
  }
  return bytes;
}

// Runs a node in front of its judge, and collects the judge's objections.
template <class Court>
struct Case {
  const char* name;
  std::function<void(Court&)> act;
  const char* objection;
};

template <class Court, std::size_t kCases>
void expect_objections(const Case<Court> (&cases)[kCases]) {
  for (const Case<Court>& c : cases) {
    Court court;
    c.act(court);
    EXPECT_THAT(court.violations(), testing::Contains(testing::HasSubstr(c.objection))) << c.name;
  }
}

}  // namespace atp::sim::judged
