#include "atp/sim/oracle.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "atp/sim/reference_numbers.h"
#include "atp/sim/values.h"

namespace atp::sim {
namespace {

constexpr std::int64_t kMaxInt32 = 2147483647;

struct Contribution {
  std::int64_t magnitude = 0;
  bool fits = true;
};

// One value as an integer; notes in the contribution if it does not fit.
std::int64_t integer_of(double value, double scale, Contribution& contribution) {
  const double scaled = std::nearbyint(value * scale);
  if (!(scaled >= -2147483648.0 && scaled <= 2147483647.0)) {
    contribution.fits = false;
    return 0;
  }
  const auto integer = static_cast<std::int64_t>(scaled);
  contribution.magnitude = std::max(contribution.magnitude, std::abs(integer));
  return integer;
}

}  // namespace

Oracle::Oracle(const Plan& plan)
    : jobs_(plan.jobs),
      scale_(plan.server_config.scale),
      all_join_through_switches_(plan.all_join_through_switches()) {
  for (const JobPlan& job : jobs_) value_counts_.push_back(plan.value_counts(job));
}

bool Oracle::is_agreeable(std::uint32_t job, std::uint16_t value_count) const {
  const ValueCounts& counts = value_counts_[job];
  return value_count == counts.through_switches ||
         (!all_join_through_switches_ && value_count == counts.straight);
}

std::optional<std::string> Oracle::check(std::uint32_t job, std::uint64_t operation, Rank rank,
                                         std::uint16_t value_count,
                                         std::span<const std::byte> output) {
  if (!is_agreeable(job, value_count)) {
    return "K is " + std::to_string(value_count) + " instead of " +
           std::to_string(value_counts_[job].through_switches);
  }
  const Result& wanted = expected(job, operation, value_count);
  const Result found = values_of(jobs_[job].operations[operation].spec.type, output);
  if (wanted.size() != found.size()) return "an output of the wrong length";
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (same_value(found[i], wanted[i])) continue;
    char text[200];
    std::snprintf(text, sizeof text,
                  "wrong sum: job %u operation %llu rank %u value %zu of %zu is %a, must be %a",
                  job, static_cast<unsigned long long>(operation), rank, i, found.size(), found[i],
                  wanted[i]);
    return text;
  }
  return std::nullopt;
}

Oracle::Inputs Oracle::inputs_of(const JobPlan& plan, std::uint64_t operation) const {
  const OperationPlan& what = plan.operations[operation];
  std::vector<std::byte> bytes(what.spec.count * bytes_of(what.spec.type));
  Inputs inputs;
  for (Rank rank = 0; rank < plan.world_size; ++rank) {
    fill_input(plan, operation, rank, what, bytes);
    inputs.push_back(values_of(what.spec.type, bytes));
  }
  return inputs;
}

const Oracle::Result& Oracle::expected(std::uint32_t job, std::uint64_t operation,
                                       std::uint16_t value_count) {
  const std::tuple key{job, operation, value_count};
  if (const auto known = expected_.find(key); known != expected_.end()) return known->second;
  const JobPlan& plan = jobs_[job];
  const OperationPlan& what = plan.operations[operation];
  const Inputs inputs = inputs_of(plan, operation);
  Result result;
  if (!is_sum(what.spec.reduction) || !is_floating(what.spec.type)) {
    result = plain_result(what.spec, inputs);
  } else if (plan.number_format == NumberFormat::kFixed) {
    result = fixed_result(what.spec, inputs, value_count);
  } else if (what.spec.small || what.spec.format == NumberFormat::kExact) {
    result = exact_result(what.spec, inputs);
  } else {
    result = block_result(what.spec, what.segments, inputs);
  }
  return expected_.emplace(key, std::move(result)).first->second;
}

Oracle::Result Oracle::fixed_result(const OperationSpec& spec, const Inputs& inputs,
                                    std::uint16_t value_count) {
  Result result;
  const std::size_t count = inputs[0].size();
  for (std::size_t first = 0; first < count; first += value_count) {
    const std::size_t length = std::min<std::size_t>(value_count, count - first);
    add_fixed_fragment(spec, inputs, first, length, result);
  }
  return result;
}

void Oracle::add_fixed_fragment(const OperationSpec& spec, const Inputs& inputs, std::size_t first,
                                std::size_t length, Result& result) {
  std::vector<std::int64_t> sums(length);
  std::int64_t magnitude = 0;
  bool fits = true;
  Inputs floats;
  for (const std::vector<double>& input : inputs) {
    Contribution contribution;
    for (std::size_t i = 0; i < length; ++i) {
      sums[i] += integer_of(input[first + i], scale_, contribution);
    }
    magnitude += contribution.magnitude;
    fits &= contribution.fits;
    const auto begin = input.begin() + static_cast<std::ptrdiff_t>(first);
    floats.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(length));
  }
  if (!fits || magnitude > kMaxInt32) {
    ++float_fragments_;
    const Result exact = exact_result(spec, floats);
    result.insert(result.end(), exact.begin(), exact.end());
    return;
  }
  ++integer_fragments_;
  const double ranks = static_cast<double>(inputs.size());
  const double divisor = spec.reduction == Reduction::kAverage ? ranks : 1.0;
  for (const std::int64_t sum : sums) {
    const double value = static_cast<double>(sum) / scale_ / divisor;
    result.push_back(static_cast<double>(static_cast<float>(value)));
  }
}

}  // namespace atp::sim
