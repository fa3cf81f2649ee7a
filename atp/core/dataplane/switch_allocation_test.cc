#include <gtest/gtest.h>

#include <cstdlib>
#include <new>

#include "atp/core/dataplane/switch_rig_test.h"

// Once a job is known, no packet makes the switch take memory.

namespace {

std::size_t allocations = 0;

}  // namespace

// Not inlined, or GCC pairs the malloc() of one with the delete of the other and warns.
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace atp::rig {
namespace {

TEST(SwitchAllocation, NoPacketOfAKnownJobTakesMemory) {
  Rig rig;
  rig.join_all();
  Outbox out(4096, 4 << 20);
  std::vector<std::pair<Endpoint, Bytes>> packets;
  for (std::uint64_t s = 0; s < 100; ++s) {
    for (unsigned rank = 0; rank < 4; ++rank) {
      packets.emplace_back(child(rank), gradient(RankSet::of(static_cast<Rank>(rank)), s, 1));
    }
    packets.emplace_back(kServer, bare(PacketType::kFlush, RankSet::first(4), s));
    packets.emplace_back(kServer, bare(PacketType::kNack, RankSet::first(4), s));
    packets.emplace_back(kServer, parameter(RankSet::first(4), s));
    packets.emplace_back(kStranger, gradient(ranks({0}), s, 1));  // answered by STATUS
  }
  packets.emplace_back(child(0), join(0));  // a refresh
  packets.emplace_back(kServer, join_ack(RankSet::first(4), ack_body()));
  packets.emplace_back(child(3), leave(3, nonce(3)));

  const std::size_t before = allocations;
  for (const auto& [from, bytes] : packets) {
    rig.node.handle_packet(rig.now, from, bytes, out);
    out.clear();
  }
  rig.node.handle_timeout(rig.now + 4s, out);
  EXPECT_EQ(allocations, before);
  EXPECT_GT(rig.count(SwitchCounter::kStatusesSent), 0u);
  EXPECT_GT(rig.count(SwitchCounter::kGradientsSummed), 0u);
}

}  // namespace
}  // namespace atp::rig
