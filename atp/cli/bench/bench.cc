#include "atp/cli/bench/bench.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "atp/cli/command/command.h"

namespace atp {
namespace {

// The names that nccl-tests uses.
const char* column_name(DataType type) {
  switch (type) {
    case DataType::kFloat32: return "float";
    case DataType::kBFloat16: return "bfloat16";
    case DataType::kFloat16: return "half";
    case DataType::kInt32: return "int32";
  }
  return "unknown";
}

std::string route_text(const CommunicatorOptions& job) {
  std::string text;
  for (const Endpoint& hop : job.route) text += (text.empty() ? "" : " > ") + to_string(hop);
  if (!job.more_routes.empty()) {
    const std::size_t more = job.more_routes.size();
    text += fmt::format(" and {} more route{}", more, more == 1 ? "" : "s");
  }
  return text;
}

}  // namespace

// nccl-tests' busbw: the bandwidth of each link if a ring had taken the same time.
double Bench::bus_factor() const {
  const auto n = static_cast<double>(communicator_.world_size());
  return 2 * (n - 1) / n;
}

void Bench::all_reduce(Bytes tensor, ElementKind kind, ElementReduction reduction) {
  const Status result =
      communicator_.all_reduce(tensor, kind, {.reduction = reduction, .here = true}).wait();
  if (!result) throw CommandError(result.error().message);
}

void Bench::sum(NumberGather& numbers) {
  const auto words = numbers.words();
  all_reduce(std::as_writable_bytes(std::span(words)), ElementKind::kInt32, ElementReduction::kSum);
}

void Bench::print_counters() const {
  fmt::print("# counters of rank 0\n");
  for (const auto& [name, value] : communicator_.counters()) {
    if (value > 0) fmt::print("#   {} {}\n", name, value);
  }
}

// Times one all_reduce over fresh data, in nanoseconds. A small one before it aligns the ranks, so
// that the time does not include waiting for the rank that checks its results slowest.
std::uint64_t Bench::run_once(std::vector<std::byte>& data, std::uint64_t& wrong) {
  const BenchPattern pattern(communicator_.world_size(), ++seed_, type_);
  pattern.fill(communicator_.rank(), data);
  NumberGather barrier(1, 1);
  sum(barrier);
  const auto start = std::chrono::steady_clock::now();
  all_reduce(data, kind_of(type_),
             options_.average ? ElementReduction::kAverage : ElementReduction::kSum);
  const auto took = std::chrono::steady_clock::now() - start;
  if (options_.digest) digest_.add(seed_ - 1, type_, data);
  wrong += pattern.count_wrong(data, options_.average);
  return static_cast<std::uint64_t>(std::chrono::nanoseconds(took).count());
}

Measurement Bench::measure(std::uint64_t bytes) {
  std::vector<std::byte> data(bytes / bytes_of(type_) * bytes_of(type_));
  const auto iterations = static_cast<std::size_t>(options_.iterations);
  std::vector<std::uint64_t> mine(iterations + 1);  // times, then the count of wrong elements
  for (int i = 0; i < options_.warmup_iterations; ++i) run_once(data, mine.back());
  for (std::size_t i = 0; i < iterations; ++i) mine[i] = run_once(data, mine.back());

  NumberGather all(communicator_.world_size(), mine.size());
  all.put(communicator_.rank(), mine);
  sum(all);

  Measurement row{.bytes = data.size()};
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

std::string Bench::path_text(const CommunicatorOptions& job) const {
  if (communicator_.in_host_memory()) return "in shared memory";
  const std::size_t values = communicator_.values_per_fragment();
  if (values == 0) return "in each host's shared memory, then route " + route_text(job);
  return fmt::format("route {}, {} values per fragment", route_text(job), values);
}

void Bench::print_header(const CommunicatorOptions& job) const {
  fmt::print("# atp bench allreduce: {} rank{}, {}\n", communicator_.world_size(),
             communicator_.world_size() == 1 ? "" : "s", path_text(job));
  fmt::print(
      "# in place; {} timed iterations after {} warm-up iterations; every element is checked\n",
      options_.iterations, options_.warmup_iterations);
  fmt::print(
      "# time: of the slowest rank, mean over the timed iterations; busbw = algbw * 2(N-1)/N\n");
  fmt::print(
      "# lower bounds for S bytes over links of bandwidth B: ring 2(N-1)/N * S/B, in-network "
      "S/B\n#\n");
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
             row.bytes / bytes_of(type_), column_name(type_), options_.average ? "avg" : "sum",
             row.time_us, algorithm_gbytes, algorithm_gbytes * bus_factor(), row.wrong);
  if (options_.bandwidth_gbit > 0) {
    const double in_network_us = static_cast<double>(row.bytes) * 8 / options_.bandwidth_gbit / 1e3;
    fmt::print(" {:>10.1f} {:>10.1f}", in_network_us * bus_factor(), in_network_us);
  }
  fmt::print("\n");
  std::fflush(stdout);
}

bool Bench::print_digest() {
  const DigestReading mine = digest_.read();
  NumberGather all(communicator_.world_size(), 2);
  std::uint64_t words[2] = {0, 0};
  for (std::size_t i = 0; i < 16; ++i) words[i / 8] = words[i / 8] << 8 | mine.digest.bytes[i];
  all.put(communicator_.rank(), words);
  sum(all);
  std::string others;
  for (std::size_t rank = 0; rank < communicator_.world_size(); ++rank) {
    if (all.get(rank, 0) == all.get(0, 0) && all.get(rank, 1) == all.get(0, 1)) continue;
    others += (others.empty() ? "" : ", ") + std::to_string(rank);
  }
  if (prints()) {
    fmt::print("# Digest of {} results : {}, {}\n", mine.operations, mine.digest.text(),
               others.empty() ? "the same on all ranks" : "DIFFERENT on rank " + others);
  }
  return others.empty();
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
  const bool equal = !options_.digest || print_digest();
  if (prints()) {
    fmt::print("# Out of bounds values : {} {}\n", wrong, wrong == 0 ? "OK" : "FAILED");
    fmt::print("# Avg bus bandwidth    : {:.4g} GB/s\n", bus_bandwidth / rows);
    if (options_.counters) print_counters();
  }
  return equal && wrong == 0;
}

}  // namespace atp
