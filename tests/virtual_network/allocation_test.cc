#include <cstdlib>
#include <new>

#include "atp/sim/probes.h"
#include "tests/virtual_network/scenario.h"

// Memory is allocated when a node or a job is made, never for a packet or an operation: this
// program's operator new counts while a node is being called.

namespace {

void* allocate(std::size_t bytes, std::size_t alignment) {
  using atp::sim::AllocationGuard;
  if (AllocationGuard::inside_node) ++AllocationGuard::allocations;
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  void* memory = std::aligned_alloc(alignment, rounded > 0 ? rounded : alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

// Not inlined: GCC would pair this allocation with a delete and warn.
// NOLINTBEGIN(misc-new-delete-overloads)
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  return allocate(bytes, __STDCPP_DEFAULT_NEW_ALIGNMENT__);
}
[[gnu::noinline]] void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
// NOLINTEND(misc-new-delete-overloads)

namespace atp::sim {
namespace {

Plan busy_plan() {
  Plan plan = steady_plan(4, 400, 60, microseconds(200));
  plan.jobs[0].stream_count = 2;
  for (std::size_t i = 0; i < plan.jobs[0].operations.size(); i += 10) {
    plan.jobs[0].operations[i].values = Values::kHuge;
  }
  return plan;
}

std::uint64_t allocations_after_warm_up(World& world) {
  EXPECT_TRUE(world.run(seconds(30), [&] { return world.application(0).completed() > 50; }));
  AllocationGuard::allocations = 0;
  EXPECT_TRUE(world.run_to_completion()) << world.unfinished();
  EXPECT_THAT(world.violations(), testing::IsEmpty());
  return AllocationGuard::allocations;
}

TEST(Allocation, IsCountedByTheGuard) {
  const std::uint64_t before = AllocationGuard::allocations;
  {
    AllocationGuard guard;
    ::operator delete(::operator new(1));
  }
  EXPECT_EQ(AllocationGuard::allocations, before + 1);
}

TEST(Allocation, NeverHappensForAPacketOrAnOperation) {
  World world(busy_plan());
  EXPECT_EQ(allocations_after_warm_up(world), 0);
}

TEST(Allocation, NeverHappensToRepairLoss) {
  Plan plan = busy_plan();
  plan.path_faults = {
      {.loss = 0.02, .duplicate = 0.02, .held_back = 0.05, .held_back_max = milliseconds(1)}};
  World world(plan);
  EXPECT_EQ(allocations_after_warm_up(world), 0);
  EXPECT_GT(world.worker_counters()[WorkerCounter::kTimeouts], 0);
}

TEST(Allocation, NeverHappensWithoutASwitch) {
  Plan plan = busy_plan();
  plan.switches = 0;
  World world(plan);
  EXPECT_EQ(allocations_after_warm_up(world), 0);
}

}  // namespace
}  // namespace atp::sim
