#include "atp/sim/oracle.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>

#include "atp/sim/exact_sum.h"
#include "atp/sim/values.h"

namespace atp::sim {
namespace {

constexpr std::int64_t kMost = 2147483647;

struct Contribution {
  std::int64_t magnitude = 0;
  bool fits = true;
};

// One value as an integer; one that doesn't fit says so instead.
std::int64_t integer_of(float value, double scale, Contribution& contribution) {
  const double scaled = std::nearbyint(static_cast<double>(value) * scale);
  if (!(scaled >= -2147483648.0 && scaled <= 2147483647.0)) {
    contribution.fits = false;
    return 0;
  }
  const auto integer = static_cast<std::int64_t>(scaled);
  contribution.magnitude = std::max(contribution.magnitude, std::abs(integer));
  return integer;
}

bool same(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) ||
         std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

}  // namespace

std::optional<std::string> Oracle::check(std::uint32_t job, std::uint64_t operation, Rank rank,
                                         std::uint16_t value_count, std::span<const float> output) {
  const std::vector<float>& wanted = expected(job, operation, value_count);
  if (wanted.size() != output.size()) return "an output of the wrong length";
  for (std::size_t i = 0; i < output.size(); ++i) {
    if (same(output[i], wanted[i])) continue;
    char text[200];
    std::snprintf(text, sizeof text,
                  "wrong sum: job %u operation %llu rank %u value %zu of %zu is %a, must be %a",
                  job, static_cast<unsigned long long>(operation), rank, i, output.size(),
                  static_cast<double>(output[i]), static_cast<double>(wanted[i]));
    return text;
  }
  return std::nullopt;
}

const std::vector<float>& Oracle::expected(std::uint32_t job, std::uint64_t operation,
                                           std::uint16_t value_count) {
  const auto [it, is_new] = expected_.try_emplace({job, operation});
  if (!is_new) return it->second;
  const JobPlan& plan = jobs_[job];
  const OperationPlan& what = plan.operations[operation];
  const auto count = static_cast<std::size_t>(what.spec.count);
  inputs_.assign(plan.world_size, std::vector<float>(count));
  for (Rank rank = 0; rank < plan.world_size; ++rank) {
    fill_input(plan, operation, rank, what.values, inputs_[rank]);
  }
  it->second.resize(count);
  for (std::size_t first = 0; first < count; first += value_count) {
    const std::size_t length = std::min<std::size_t>(value_count, count - first);
    expect_fragment(what, first, std::span(it->second).subspan(first, length));
  }
  return it->second;
}

void Oracle::expect_fragment(const OperationPlan& operation, std::size_t first,
                             std::span<float> out) {
  std::vector<std::int64_t> sums(out.size());
  std::int64_t magnitude = 0;
  bool fits = true;
  for (const std::vector<float>& input : inputs_) {
    Contribution contribution;
    for (std::size_t i = 0; i < out.size(); ++i) {
      sums[i] += integer_of(input[first + i], scale_, contribution);
    }
    magnitude += contribution.magnitude;
    fits &= contribution.fits;
  }
  const bool integer = fits && magnitude <= kMost;
  ++(integer ? integer_fragments_ : float_fragments_);

  const double divisor =
      operation.spec.reduction == Reduction::kAverage ? static_cast<double>(inputs_.size()) : 1.0;
  std::vector<float> column(inputs_.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (integer) {
      out[i] = static_cast<float>(static_cast<double>(sums[i]) / scale_ / divisor);
      continue;
    }
    for (std::size_t rank = 0; rank < inputs_.size(); ++rank) {
      column[rank] = inputs_[rank][first + i];
    }
    out[i] = static_cast<float>(static_cast<double>(exact_sum(column)) / divisor);
  }
}

}  // namespace atp::sim
