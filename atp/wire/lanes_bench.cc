#include <benchmark/benchmark.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "atp/wire/lanes.h"
#include "atp/wire/packet.h"

// Measures what one core spends on a fragment's values in each of the four loops of a switch and a
// server, with everything in the nearest cache. The argument is the number of int32 lanes.
//
//   ninja -C build/release atp_wire_bench
//   build/release/atp_wire_bench --benchmark_filter=lanes

namespace atp {
namespace {

constexpr std::size_t kMaxBytes = 4 * 2226;
constexpr std::uint8_t kKind = ATP_KIND_INT32 | ATP_KIND_SUM;

struct Fragment {
  std::array<std::uint8_t, kMaxBytes> sum{};
  std::array<std::uint8_t, kMaxBytes> in{};
  std::array<std::uint8_t, kMaxBytes> out{};
};

template <class Loop>
void measure(benchmark::State& state, Loop loop) {
  Fragment fragment;
  const std::size_t bytes = 4 * static_cast<std::size_t>(state.range(0));
  for (auto _ : state) {
    loop(fragment, bytes);
    benchmark::ClobberMemory();
  }
}

void store(benchmark::State& state) {
  measure(state, [](Fragment& of, std::size_t bytes) {
    store_lanes(kKind, of.sum.data(), of.in.data(), bytes);
  });
}

void combine(benchmark::State& state) {
  measure(state, [](Fragment& of, std::size_t bytes) {
    combine_lanes(kKind, of.sum.data(), of.in.data(), bytes);
  });
}

void combine_and_load(benchmark::State& state) {
  measure(state, [](Fragment& of, std::size_t bytes) {
    combine_and_load_lanes(kKind, of.sum.data(), of.in.data(), of.out.data(), bytes);
  });
}

void load(benchmark::State& state) {
  measure(state, [](Fragment& of, std::size_t bytes) {
    load_lanes(kKind, of.sum.data(), of.out.data(), bytes);
  });
}

BENCHMARK(store)->Name("store_lanes")->Arg(350)->Arg(2226);
BENCHMARK(combine)->Name("combine_lanes")->Arg(350)->Arg(2226);
BENCHMARK(combine_and_load)->Name("combine_and_load_lanes")->Arg(350)->Arg(2226);
BENCHMARK(load)->Name("load_lanes")->Arg(350)->Arg(2226);

}  // namespace
}  // namespace atp
