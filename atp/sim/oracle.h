#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "atp/sim/plan.h"

namespace atp::sim {

// Computes the correct result of every operation from the contributions alone (docs/inside/protocol
// §7.7), with reference_numbers.h. A job's K must be one that its plan allows. In a job with the
// fixed scale, a fragment whose contributions all fit and whose magnitudes add up to at most 2^31 −
// 1 is the exact integer sum, computed here in 64 bits; any other is the exact sum of the float32
// values, rounded once. A worker's output must equal the result bit for bit, except that any NaN
// equals any other.
class Oracle {
 public:
  explicit Oracle(const Plan& plan);

  // Describes what is wrong with the output of an operation that `rank` completed; nothing if it is
  // right.
  std::optional<std::string> check(std::uint32_t job, std::uint64_t operation, Rank rank,
                                   std::uint16_t value_count, std::span<const std::byte> output);

  std::uint64_t integer_fragments() const { return integer_fragments_; }
  std::uint64_t float_fragments() const { return float_fragments_; }

 private:
  using Result = std::vector<double>;
  using Inputs = std::vector<std::vector<double>>;  // by rank

  bool is_agreeable(std::uint32_t job, std::uint16_t value_count) const;
  const Result& expected(std::uint32_t job, std::uint64_t operation, std::uint16_t value_count);
  Inputs inputs_of(const JobPlan& plan, std::uint64_t operation) const;
  Result fixed_result(const OperationSpec& spec, const Inputs& inputs, std::uint16_t value_count);
  void add_fixed_fragment(const OperationSpec& spec, const Inputs& inputs, std::size_t first,
                          std::size_t length, Result& result);

  std::vector<JobPlan> jobs_;
  double scale_;                           // of jobs with the fixed scale
  bool all_join_through_switches_;         // as in the plan
  std::vector<ValueCounts> value_counts_;  // by job
  // By job, operation and K, which matters only with the fixed scale.
  std::map<std::tuple<std::uint32_t, std::uint64_t, std::uint16_t>, Result> expected_;
  std::uint64_t integer_fragments_ = 0;  // of the fixed scale
  std::uint64_t float_fragments_ = 0;
};

}  // namespace atp::sim
