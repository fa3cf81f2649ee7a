#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstring>
#include <vector>

#include "atp/wire/block_values.h"
#include "atp/wire/element.h"

// Measures how fast one core turns values into integers and back, compared with memcpy, on tensors
// far larger than a cache. Each value counts as the 4 bytes it takes on the wire, whatever its
// type.
//
//   ninja -C build/release atp_wire_bench && build/release/atp_wire_bench

namespace atp {
namespace {

constexpr std::size_t kValues = std::size_t{1} << 23;
constexpr std::size_t kRanks = 8;
constexpr std::int16_t kExponent = 3;

struct Tensor {
  explicit Tensor(DataType of_type)
      : type(of_type), bytes(kValues * bytes_of(of_type)), lanes(kValues * 4) {
    std::vector<std::uint8_t> floats(kValues * 4);
    for (std::size_t i = 0; i < kValues; ++i) {
      const float value = static_cast<float>(i % 1999) / 256 - 3;
      std::uint32_t bits = 0;
      std::memcpy(&bits, &value, sizeof bits);
      atp_store32(floats.data() + 4 * i, bits);
    }
    read_floats(floats.data(), kValues, 1, type, bytes.data());
  }

  std::byte* block(std::size_t i) { return bytes.data() + i * kBlockValues * bytes_of(type); }
  std::uint8_t* lane(std::size_t i) { return lanes.data() + i * kBlockValues * 4; }

  DataType type;
  std::vector<std::byte> bytes;
  std::vector<std::uint8_t> lanes;
};

void set_rate(benchmark::State& state, const Tensor& tensor) {
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * tensor.lanes.size()));
}

DataType type_of(const benchmark::State& state) { return static_cast<DataType>(state.range(0)); }

void copy(benchmark::State& state) {
  Tensor tensor(DataType::kFloat32);
  for (auto _ : state) {
    std::memcpy(tensor.lanes.data(), tensor.bytes.data(), tensor.bytes.size());
    benchmark::ClobberMemory();
  }
  set_rate(state, tensor);
}

void find_exponents(benchmark::State& state) {
  Tensor tensor(type_of(state));
  for (auto _ : state) {
    for (std::size_t i = 0; i < kValues / kBlockValues; ++i) {
      benchmark::DoNotOptimize(block_exponent(tensor.type, tensor.block(i), kBlockValues));
    }
  }
  set_rate(state, tensor);
}

void quantize_blocks(benchmark::State& state) {
  Tensor tensor(type_of(state));
  const BlockUnit unit(kExponent, kRanks, NumberFormat::kBlocks);
  for (auto _ : state) {
    for (std::size_t i = 0; i < kValues / kBlockValues; ++i) {
      quantize(tensor.type, tensor.block(i), kBlockValues, unit, NumberFormat::kBlocks,
               tensor.lane(i));
    }
    benchmark::ClobberMemory();
  }
  set_rate(state, tensor);
}

void dequantize_blocks(benchmark::State& state) {
  Tensor tensor(type_of(state));
  const BlockUnit unit(kExponent, kRanks, NumberFormat::kBlocks);
  for (auto _ : state) {
    for (std::size_t i = 0; i < kValues / kBlockValues; ++i) {
      dequantize(tensor.lane(i), kBlockValues, unit, NumberFormat::kBlocks, 1, tensor.type,
                 tensor.block(i));
    }
    benchmark::ClobberMemory();
  }
  set_rate(state, tensor);
}

void of_each_type(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgName("type");
  for (const DataType type : {DataType::kFloat32, DataType::kBFloat16, DataType::kFloat16}) {
    benchmark->Arg(static_cast<int>(type));
  }
}

BENCHMARK(copy);
BENCHMARK(find_exponents)->Apply(of_each_type);
BENCHMARK(quantize_blocks)->Apply(of_each_type);
BENCHMARK(dequantize_blocks)->Apply(of_each_type);
BENCHMARK(copy)->Name("copy_again");

}  // namespace
}  // namespace atp

BENCHMARK_MAIN();
