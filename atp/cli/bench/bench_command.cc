
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "atp/cli/bench/pattern.h"
#include "atp/cli/command/command.h"
#include "atp/collective/communicator.h"

namespace atp {
namespace {

struct BenchOptions {
  std::uint64_t min_bytes = std::uint64_t{4} << 10;
  std::uint64_t max_bytes = std::uint64_t{16} << 20;
  std::uint64_t step_factor = 4;
  int iterations = 20;
  int warmup_iterations = 5;
  bool average = false;
  bool counters = false;
  double bandwidth_gbit = 0;  // of a link, for the bounds; 0: not given
};

// One row of the table.
struct Measurement {
  std::uint64_t bytes = 0;
  double time_us = 0;  // of the slowest rank, mean over the iterations
  std::uint64_t wrong = 0;
};

class Bench {
 public:
  Bench(Communicator& communicator, const BenchOptions& options)
      : communicator_(communicator), options_(options) {}

  // Runs all sizes; rank 0 prints. True if every element was right.
  bool run(const CommunicatorOptions& job);

 private:
  Measurement measure(std::uint64_t bytes);
  std::uint64_t run_once(std::vector<float>& data, std::uint64_t& wrong);
  void all_reduce(std::span<float> data, Reduction reduction);
  void print_header(const CommunicatorOptions& job) const;
  void print_row(const Measurement& row) const;
  double bus_factor() const;
  void print_counters() const;
  bool prints() const { return communicator_.rank() == 0; }

  Communicator& communicator_;
  BenchOptions options_;
  std::uint64_t seed_ = 0;  // counts the iterations
};

// nccl-tests' busbw: what a ring would have moved over each link in the same time.
double Bench::bus_factor() const {
  const auto n = static_cast<double>(communicator_.world_size());
  return 2 * (n - 1) / n;
}

void Bench::all_reduce(std::span<float> data, Reduction reduction) {
  const Status result = communicator_.all_reduce(data, {.reduction = reduction}).wait();
  if (!result) throw CommandError(result.error().message);
}

void Bench::print_counters() const {
  fmt::print("# counters of rank 0\n");
  for (const auto& [name, value] : communicator_.counters()) {
    if (value > 0) fmt::print("#   {} {}\n", name, value);
  }
}

// One timed all_reduce over fresh data, in nanoseconds. All ranks leave the small one before it at
// nearly the same time, so that the time is the network's, not that of the slowest check.
std::uint64_t Bench::run_once(std::vector<float>& data, std::uint64_t& wrong) {
  const BenchPattern pattern(communicator_.world_size(), ++seed_);
  pattern.fill(communicator_.rank(), data);
  float barrier = 0;
  all_reduce({&barrier, 1}, Reduction::kSum);
  const auto start = std::chrono::steady_clock::now();
  all_reduce(data, options_.average ? Reduction::kAverage : Reduction::kSum);
  const auto took = std::chrono::steady_clock::now() - start;
  wrong += pattern.count_wrong(data, options_.average);
  return static_cast<std::uint64_t>(std::chrono::nanoseconds(took).count());
}

Measurement Bench::measure(std::uint64_t bytes) {
  std::vector<float> data(bytes / sizeof(float));
  const auto iterations = static_cast<std::size_t>(options_.iterations);
  std::vector<std::uint64_t> mine(iterations + 1);  // times, then wrong elements
  for (int i = 0; i < options_.warmup_iterations; ++i) run_once(data, mine.back());
  for (std::size_t i = 0; i < iterations; ++i) mine[i] = run_once(data, mine.back());

  ExactGather all(communicator_.world_size(), mine.size());
  all.put(communicator_.rank(), mine);
  all_reduce(all.values(), Reduction::kSum);

  Measurement row{.bytes = data.size() * sizeof(float)};
  for (std::size_t i = 0; i < iterations; ++i) {
    std::uint64_t slowest_ns = 0;
    for (std::size_t rank = 0; rank < communicator_.world_size(); ++rank) {
      slowest_ns = std::max(slowest_ns, all.get(rank, i));
    }
    row.time_us += static_cast<double>(slowest_ns) / 1e3 / static_cast<double>(iterations);
  }
  for (std::size_t rank = 0; rank < communicator_.world_size(); ++rank) {
    row.wrong += all.get(rank, iterations);
  }
  return row;
}

std::string route_text(const CommunicatorOptions& job) {
  std::string text;
  for (const Endpoint& hop : job.route) text += (text.empty() ? "" : " > ") + to_string(hop);
  if (!job.more_routes.empty()) {
    text += fmt::format(" and {} more servers'", job.more_routes.size());
  }
  return text;
}

void Bench::print_header(const CommunicatorOptions& job) const {
  fmt::print("# atp bench allreduce: {} ranks, route {}, {} values a fragment\n",
             communicator_.world_size(), route_text(job), communicator_.values_per_fragment());
  fmt::print("# in place; iterations: {} after {} to warm up; every element of each is checked\n",
             options_.iterations, options_.warmup_iterations);
  fmt::print("# time: mean over the iterations of the slowest rank; busbw = algbw * 2(N-1)/N\n");
  fmt::print("# bounds, S bytes over links of B: ring 2(N-1)/N * S/B, in-network S/B\n#\n");
  std::string names = fmt::format("#{:>12} {:>12} {:>8} {:>6} {:>10} {:>8} {:>8} {:>7}", "size",
                                  "count", "type", "redop", "time", "algbw", "busbw", "#wrong");
  std::string units = fmt::format("#{:>12} {:>12} {:>8} {:>6} {:>10} {:>8} {:>8} {:>7}", "(B)",
                                  "(elements)", "", "", "(us)", "(GB/s)", "(GB/s)", "");
  if (options_.bandwidth_gbit > 0) {
    names += fmt::format(" {:>10} {:>10}", "ring", "in-network");
    units += fmt::format(" {:>10} {:>10}", "(us)", "(us)");
  }
  fmt::print("{}\n{}\n", names, units);
  std::fflush(stdout);
}

void Bench::print_row(const Measurement& row) const {
  const double algorithm_gbytes = static_cast<double>(row.bytes) / row.time_us / 1e3;
  fmt::print(" {:>12} {:>12} {:>8} {:>6} {:>10.1f} {:>8.3f} {:>8.3f} {:>7}", row.bytes,
             row.bytes / sizeof(float), "float", options_.average ? "avg" : "sum", row.time_us,
             algorithm_gbytes, algorithm_gbytes * bus_factor(), row.wrong);
  if (options_.bandwidth_gbit > 0) {
    const double in_network_us = static_cast<double>(row.bytes) * 8 / options_.bandwidth_gbit / 1e3;
    fmt::print(" {:>10.1f} {:>10.1f}", in_network_us * bus_factor(), in_network_us);
  }
  fmt::print("\n");
  std::fflush(stdout);
}

bool Bench::run(const CommunicatorOptions& job) {
  if (prints()) print_header(job);
  double bus_bandwidth = 0;
  std::uint64_t wrong = 0;
  int rows = 0;
  for (std::uint64_t bytes = options_.min_bytes; bytes <= options_.max_bytes;
       bytes *= options_.step_factor) {
    const Measurement row = measure(bytes);
    if (prints()) print_row(row);
    bus_bandwidth += static_cast<double>(row.bytes) / row.time_us / 1e3 * bus_factor();
    wrong += row.wrong;
    ++rows;
    if (options_.step_factor == 1) break;
  }
  if (prints()) {
    fmt::print("# Out of bounds values : {} {}\n", wrong, wrong == 0 ? "OK" : "FAILED");
    fmt::print("# Avg bus bandwidth    : {:.4g} GB/s\n", bus_bandwidth / rows);
    if (options_.counters) print_counters();
  }
  return wrong == 0;
}

bool run_bench(const BenchOptions& options) {
  if (options.min_bytes < sizeof(float) || options.min_bytes > options.max_bytes) {
    throw CommandError(fmt::format("-b {} -e {} is no range of sizes from 4 bytes upward",
                                   options.min_bytes, options.max_bytes),
                       kWrongUsage);
  }
  const Result<CommunicatorOptions> job = CommunicatorOptions::from_environment();
  if (!job) throw CommandError(job.error().message, kWrongUsage);
  const Result<std::unique_ptr<Communicator>> connected = Communicator::connect(job.value());
  if (!connected) throw CommandError(connected.error().message);
  Communicator& communicator = *connected.value();
  const bool right = Bench(communicator, options).run(job.value());
  const Status left = communicator.shutdown();
  if (!left) throw CommandError(left.error().message);
  return right;
}

constexpr const char* kExamples = R"(Examples:
  atp run -n 4 -- atp bench allreduce
      4 ranks, a switch and a server on this machine; 4 KiB to 16 MiB
  atp run -n 8 -- atp bench allreduce -b 64M -e 64M -n 5 -w 1
      one size
  atp run -n 2 -- atp bench allreduce -b 1K -e 1M -f 2 --bandwidth 10
      with the bounds of a 10 Gbit/s network beside the times)";

}  // namespace

void add_bench_command(const Command& program) {
  const Command bench = program.add_command("bench", "Measure collectives and check their results");
  bench.footer(kExamples);
  bench.require_command();
  const Command command = bench.add_command(
      "allreduce", "Time all_reduce over a range of sizes; run it under `atp run`");
  command.footer(kExamples);
  const auto options = std::make_shared<BenchOptions>();
  command.add_option("-b,--minbytes", options->min_bytes, "Smallest size in bytes: 512, 4K, 1M")
      .byte_size()
      .type_name("SIZE")
      .show_default();
  command.add_option("-e,--maxbytes", options->max_bytes, "Largest size")
      .byte_size()
      .type_name("SIZE")
      .show_default();
  command.add_option("-f,--stepfactor", options->step_factor, "Factor from one size to the next")
      .in_range(1, 1 << 20)
      .type_name("N")
      .show_default();
  command.add_option("-n,--iters", options->iterations, "Iterations that count")
      .in_range(1, 1000000)
      .type_name("N")
      .show_default();
  command.add_option("-w,--warmup_iters", options->warmup_iterations, "Iterations before these")
      .in_range(0, 1000000)
      .type_name("N")
      .show_default();
  command.add_flag("-a,--average", options->average, "Average instead of sum");
  command.add_flag("--counters", options->counters, "Rank 0's counters at the end");
  command
      .add_option("--bandwidth", options->bandwidth_gbit,
                  "Of one link, in Gbit/s: adds the bounds to each row")
      .positive_number()
      .type_name("GBIT");
  command.callback([options] {
    if (!run_bench(*options)) throw CommandEnd(1);
  });
}

}  // namespace atp
