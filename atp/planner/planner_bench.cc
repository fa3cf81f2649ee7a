// Time and memory of a whole plan by number of devices, with and without sensitivities. There are
// four levels with different links, two of them with aggregation, so that all collectives are
// evaluated. Run `atp_planner_bench --benchmark_format=csv` for a plot.

#include <benchmark/benchmark.h>
#include <malloc.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <new>

#include "atp/planner/testing_interconnects.h"

namespace {

// Bytes that the planner has allocated, and their peak. Only one thread runs.
std::size_t allocated_bytes = 0;
std::size_t peak_bytes = 0;

}  // namespace

// Not inlined, because GCC would report malloc and delete as mismatched.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  void* block = std::malloc(bytes);
  if (block == nullptr) throw std::bad_alloc();
  allocated_bytes += malloc_usable_size(block);
  peak_bytes = std::max(peak_bytes, allocated_bytes);
  return block;
}

[[gnu::noinline]] void operator delete(void* block) noexcept {
  allocated_bytes -= malloc_usable_size(block);
  std::free(block);
}

[[gnu::noinline]] void operator delete(void* block, std::size_t) noexcept {
  operator delete(block);
}

namespace atp::planner {
namespace {

// A number of devices that is a power of two, distributed over the levels from the bottom: 1,024
// are 4 x 4 x 8 x 8.
Interconnect four_levels(std::int64_t devices) {
  const int bits = static_cast<int>(std::log2(static_cast<double>(devices)));
  const auto count = [bits](int place) { return 1u << ((bits + place) / 4); };
  const Aggregation servers{.payload_bytes = 1024, .header_bytes = 58, .server_hosts = 2};
  const Aggregation workers{
      .payload_bytes = 1024, .header_bytes = 58, .placement = ServerPlacement::kColocated};
  Interconnect interconnect{.levels = {testing::switched("pod", count(0), 25, servers),
                                       testing::switched("rack", count(1), 12.5, workers),
                                       testing::switched("host", count(2), 12),
                                       testing::linked("device", count(3), LevelKind::kFull, 100)}};
  for (Level& level : interconnect.levels) level.latency_s = 5e-6;
  return interconnect;
}

void run(benchmark::State& state, bool sensitivities) {
  Request request = testing::request_for(four_levels(state.range(0)));
  // Every mesh is feasible, so the work depends only on the number of devices.
  request.model.heads = std::max(1024u, static_cast<std::uint32_t>(state.range(0)));
  request.model.hidden = 16 * request.model.heads;
  request.options.sensitivities = sensitivities;
  request.options.runners_up = 8;
  std::size_t layouts = 0;
  const std::size_t before = allocated_bytes;
  peak_bytes = before;
  for (auto _ : state) {
    auto found = plan(request);
    layouts = found.value().layouts_searched;
    benchmark::DoNotOptimize(found);
  }
  state.counters["layouts"] = static_cast<double>(layouts);
  state.counters["peak_KiB"] = static_cast<double>(peak_bytes - before) / 1024;
}

void plan_alone(benchmark::State& state) { run(state, false); }
void plan_and_what_would_change_it(benchmark::State& state) { run(state, true); }

BENCHMARK(plan_alone)->RangeMultiplier(4)->Range(16, 1 << 20)->Unit(benchmark::kMillisecond);
BENCHMARK(plan_and_what_would_change_it)
    ->RangeMultiplier(4)
    ->Range(16, 1 << 16)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace atp::planner

BENCHMARK_MAIN();
