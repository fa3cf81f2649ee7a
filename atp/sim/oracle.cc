#include "atp/sim/oracle.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>

#include "atp/sim/reference_sum.h"
#include "atp/sim/values.h"

namespace atp::sim {
namespace {

constexpr std::int64_t kMaxInt32 = 2147483647;

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
  const std::int64_t at_least = value != 0 ? 1 : 0;
  contribution.magnitude = std::max({contribution.magnitude, std::abs(integer), at_least});
  return integer;
}

bool same(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) ||
         std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

}  // namespace

std::optional<std::string> Oracle::check(std::uint32_t job, std::uint64_t operation, Rank rank,
                                         std::uint16_t value_count, std::span<const float> output) {
  const std::vector<float>& wanted = expected(job, operation, value_count).output;
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

const Oracle::Expected& Oracle::expected(std::uint32_t job, std::uint64_t operation,
                                         std::uint16_t value_count) {
  if (const auto known = expected_.find({job, operation}); known != expected_.end()) {
    return known->second;
  }
  Expected result;
  result.scale = scale_of(job, operation, value_count);
  const JobPlan& plan = jobs_[job];
  const OperationPlan& what = plan.operations[operation];
  const auto count = static_cast<std::size_t>(what.spec.count);
  inputs_.assign(plan.world_size, std::vector<float>(count));
  for (Rank rank = 0; rank < plan.world_size; ++rank) {
    fill_input(plan, operation, rank, what.values, inputs_[rank]);
  }
  result.output.resize(count);
  for (std::size_t first = 0; first < count; first += value_count) {
    const std::size_t length = std::min<std::size_t>(value_count, count - first);
    expect_fragment(what, first, length, result);
  }
  return expected_.emplace(std::pair{job, operation}, std::move(result)).first->second;
}

// docs/protocol.md §5, *Scale*, written once more and on purpose from its words.
double Oracle::scale_of(std::uint32_t job, std::uint64_t operation, std::uint16_t value_count) {
  const JobPlan& plan = jobs_[job];
  if (plan.number_format == NumberFormat::kFixed) return scale_;
  const OperationSpec& spec = plan.operations[operation].spec;
  int exponent = 28 - static_cast<int>(std::bit_width(plan.world_size - 1U));
  bool first = true;
  int with_room = 0;
  for (std::uint64_t before = 0; before < operation; ++before) {
    const OperationSpec& other = plan.operations[before].spec;
    const bool same_kind =
        other.count == spec.count && other.reduction == spec.reduction && other.tag == spec.tag;
    if (!same_kind) continue;
    const double magnitude = expected(job, before, value_count).magnitude;
    if (magnitude == 0) continue;
    int room = 0;
    while (std::ldexp(magnitude, room) > 0x1p29) --room;
    while (std::ldexp(magnitude, room + 1) <= 0x1p29) ++room;
    if (first || room < 0 || room > 15) {
      exponent += room;
      with_room = 0;
    } else if (room == 0) {
      with_room = 0;
    } else if (++with_room == 8) {
      ++exponent;
      with_room = 0;
    }
    exponent = std::clamp(exponent, -128, 178);
    first = false;
  }
  return std::ldexp(1.0, exponent);
}

void Oracle::expect_fragment(const OperationPlan& operation, std::size_t first, std::size_t length,
                             Expected& expected) {
  std::vector<std::int64_t> sums(length);
  std::int64_t magnitude = 0;
  bool fits = true;
  for (const std::vector<float>& input : inputs_) {
    Contribution contribution;
    for (std::size_t i = 0; i < length; ++i) {
      sums[i] += integer_of(input[first + i], expected.scale, contribution);
    }
    magnitude += contribution.magnitude;
    fits &= contribution.fits;
  }
  const bool integer = fits && magnitude <= kMaxInt32;
  ++(integer ? integer_fragments_ : float_fragments_);

  const double ranks = static_cast<double>(inputs_.size());
  const double divisor = operation.spec.reduction == Reduction::kAverage ? ranks : 1.0;
  const std::span<float> out = std::span(expected.output).subspan(first, length);
  if (integer) {
    for (std::size_t i = 0; i < length; ++i) {
      out[i] = static_cast<float>(static_cast<double>(sums[i]) / expected.scale / divisor);
    }
    expected.magnitude = std::max(expected.magnitude, static_cast<double>(magnitude));
    return;
  }
  double largest = 0;
  bool all_finite = true;
  std::vector<float> column(inputs_.size());
  for (std::size_t i = 0; i < length; ++i) {
    for (std::size_t rank = 0; rank < inputs_.size(); ++rank) {
      column[rank] = inputs_[rank][first + i];
    }
    const float sum = reference_sum(column);
    out[i] = static_cast<float>(static_cast<double>(sum) / divisor);
    all_finite &= std::isfinite(sum);
    if (std::isfinite(sum)) largest = std::max(largest, std::abs(static_cast<double>(sum)));
  }
  largest *= ranks * expected.scale;
  expected.magnitude = std::max({expected.magnitude, largest, all_finite ? 0x1p31 : 0.0});
}

}  // namespace atp::sim
