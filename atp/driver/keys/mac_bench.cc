// What the tag of a packet costs: docs/operate/operations.md, *Keys*.
#include <benchmark/benchmark.h>

#include <vector>

#include "atp/driver/keys/mac.h"

namespace atp {
namespace {

void make_packet_tag(benchmark::State& state) {
  const std::vector<std::uint8_t> packet(static_cast<std::size_t>(state.range(0)));
  const PacketKey key = packet_key(random_key(), 7);
  for (auto _ : state) benchmark::DoNotOptimize(packet_tag(key, packet));
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(make_packet_tag)->Arg(48)->Arg(1440)->Arg(8952);

}  // namespace
}  // namespace atp

BENCHMARK_MAIN();
