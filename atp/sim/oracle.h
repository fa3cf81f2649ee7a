#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "atp/sim/plan.h"

namespace atp::sim {

// Knows what every operation must give, from the contributions alone (docs/protocol.md §7.7): a
// fragment whose contributions all fit and whose magnitudes add up to at most 2^31 − 1 is the exact
// integer sum, taken here in 64 bits; any other is the exact sum of the float32 values, rounded
// once. The scale of an automatic job is what the magnitudes of earlier operations of the kind make
// it. A worker's output must equal it bit for bit, any NaN standing for every NaN.
class Oracle {
 public:
  Oracle(std::vector<JobPlan> jobs, double scale) : jobs_(std::move(jobs)), scale_(scale) {}

  // What is wrong with the output of an operation completed by `rank`; nothing if it is right.
  std::optional<std::string> check(std::uint32_t job, std::uint64_t operation, Rank rank,
                                   std::uint16_t value_count, std::span<const float> output);

  std::uint64_t integer_fragments() const { return integer_fragments_; }
  std::uint64_t float_fragments() const { return float_fragments_; }

 private:
  struct Expected {
    double scale = 0;
    double magnitude = 0;  // the largest of its fragments, in units of the scale
    std::vector<float> output;
  };

  const Expected& expected(std::uint32_t job, std::uint64_t operation, std::uint16_t value_count);
  double scale_of(std::uint32_t job, std::uint64_t operation, std::uint16_t value_count);
  void expect_fragment(const OperationPlan& operation, std::size_t first, std::size_t length,
                       Expected& expected);

  std::vector<JobPlan> jobs_;
  double scale_;  // of jobs with a fixed one
  std::map<std::pair<std::uint32_t, std::uint64_t>, Expected> expected_;
  std::vector<std::vector<float>> inputs_;  // by rank, of the operation being computed
  std::uint64_t integer_fragments_ = 0;
  std::uint64_t float_fragments_ = 0;
};

}  // namespace atp::sim
