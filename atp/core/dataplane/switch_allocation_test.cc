#include <gtest/gtest.h>
#include <malloc.h>

#include <cstdlib>
#include <new>

#include "atp/core/dataplane/switch_rig_test.h"

// Once a job is known, no packet makes the switch allocate memory; what strangers' JOINs make it
// allocate is bounded.

namespace {

std::size_t allocations = 0;
std::size_t bytes_held = 0;

}  // namespace

// Not inlined: GCC would pair this malloc() with a delete and warn.
[[gnu::noinline]] void* operator new(std::size_t size) {
  void* memory = std::malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  ++allocations;
  bytes_held += malloc_usable_size(memory);
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  bytes_held -= malloc_usable_size(memory);
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  operator delete(memory);
}

namespace atp::rig {
namespace {

TEST(SwitchAllocation, NoPacketOfAKnownJobAllocates) {
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
    rig.node.handle_packet(rig.now, from, kOwn, bytes, out);
    out.clear();
  }
  rig.node.handle_timeout(rig.now + 4s, out);
  EXPECT_EQ(allocations, before);
  EXPECT_GT(rig.count(SwitchCounter::kStatusesSent), 0u);
  EXPECT_GT(rig.count(SwitchCounter::kGradientsSummed), 0u);
}

// A stranger's JOIN, from one of its many addresses, for a rank of a job of its own.
Bytes strangers_join(std::uint32_t job, Rank rank, std::uint16_t world_size) {
  Join body = join_body(0);
  body.world_size = world_size;
  body.stream_count = 1024;
  const ControlHead head{
      .type = PacketType::kJoin, .bitmap_words = bitmap_words_for(world_size), .job = {job, 1}};
  return control(put_join, head, RankSet::of(rank), body);
}

TEST(SwitchMemory, StrangersTreesStayBelowItsLimitAndFurtherTreesAreRefused) {
  for (const std::uint16_t world_size : {1, 1024}) {
    SCOPED_TRACE(world_size);
    SwitchConfig limited = config();
    limited.max_trees = 1000;
    limited.tree_memory_bytes = std::size_t{4} << 20;
    Rig rig(limited);
    Outbox out(64, 1 << 20);
    const std::size_t before = bytes_held;
    for (std::uint32_t job = 100; job < 1100; ++job) {
      for (Rank rank = 0; rank < world_size && job < 110; ++rank) {
        const auto low = static_cast<std::uint8_t>(rank);
        const Endpoint from = Endpoint::ipv4(10, 9, static_cast<std::uint8_t>(rank / 256), low, 1);
        rig.node.handle_packet(rig.now, from, kOwn,
                               proven(rig.secret, from, strangers_join(job, rank, world_size)),
                               out);
        out.clear();
      }
      rig.node.handle_packet(rig.now, kStranger, kOwn,
                             proven(rig.secret, kStranger, strangers_join(job, 0, world_size)),
                             out);
      out.clear();
    }
    const std::size_t held = bytes_held - before;
    EXPECT_LE(held, limited.tree_memory_bytes);
    EXPECT_GT(held, limited.tree_memory_bytes / 16) << "refused trees that would fit";
    EXPECT_LT(rig.node.trees(), 1000u);
    EXPECT_GT(rig.node.trees(), 1u);

    rig.wait(20ms);  // the pause between two answers
    const auto refused = rig.in(kStranger, strangers_join(5000, 0, 1024));
    ASSERT_EQ(refused.size(), 1u);
    EXPECT_EQ(refused[0].status().refusal(), (Refusal{RefusalReason::kMemory, 0, 2}));
  }
}

}  // namespace
}  // namespace atp::rig
