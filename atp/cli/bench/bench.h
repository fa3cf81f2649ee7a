#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "atp/cli/bench/pattern.h"
#include "atp/collective/base/result_digest.h"
#include "atp/collective/communicator.h"

// `atp bench allreduce`: times all-reduces over a range of sizes, checks every element, and prints
// the columns of nccl-tests.

namespace atp {

struct BenchOptions {
  std::uint64_t min_bytes = std::uint64_t{4} << 10;
  std::uint64_t max_bytes = std::uint64_t{16} << 20;
  std::uint64_t step_factor = 4;
  int iterations = 20;
  int warmup_iterations = 5;
  bool average = false;
  bool counters = false;
  bool digest = false;
  DataType type = DataType::kFloat32;
  double bandwidth_gbit = 0;  // per link, for the bounds; 0: not given
};

// One row of the table.
struct Measurement {
  std::uint64_t bytes = 0;
  double time_us = 0;  // of the slowest rank, mean over the timed iterations
  std::uint64_t wrong = 0;
};

class Bench {
 public:
  Bench(Communicator& communicator, const BenchOptions& options)
      : communicator_(communicator), options_(options), type_(options.type) {}

  // Runs all sizes; rank 0 prints. True if every element was right and the same on all ranks.
  bool run(const CommunicatorOptions& job);

 private:
  Measurement measure(std::uint64_t bytes);
  std::uint64_t run_once(std::vector<std::byte>& data, std::uint64_t& wrong);
  void all_reduce(Bytes tensor, ElementKind kind, ElementReduction reduction);
  void sum(NumberGather& numbers);
  void print_header(const CommunicatorOptions& job) const;
  std::string path_text(const CommunicatorOptions& job) const;
  void print_row(const Measurement& row) const;
  double bus_factor() const;
  void print_counters() const;
  // Returns whether all ranks have the same digest.
  bool print_digest();
  bool prints() const { return communicator_.rank() == 0; }

  Communicator& communicator_;
  BenchOptions options_;
  DataType type_;
  std::uint64_t seed_ = 0;  // one per iteration
  ResultDigest digest_;     // of all results
};

}  // namespace atp
