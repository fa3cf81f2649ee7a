// The arithmetic of the choice, in whole nanoseconds, and the measurement of operations in flight.
#include "atp/collective/tuner.h"

#include <algorithm>
#include <bit>

namespace atp {
namespace {

std::size_t least_size_of(std::size_t size_class) { return std::size_t{1} << size_class; }

}  // namespace

// Bounded, so that no sum or product of these in Tuner can overflow.
std::uint64_t CostModel::nanoseconds(std::size_t bytes) const {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 53;
  if (picoseconds_per_byte > 0 && bytes > kMost * 1000 / picoseconds_per_byte) return kMost;
  const std::uint64_t exact = picoseconds_per_byte * bytes / 1000;
  return exact + std::min(latency_ns, kMost - exact);
}

std::size_t size_class_of(std::size_t bytes) {
  const auto width = static_cast<std::size_t>(std::bit_width(std::max<std::size_t>(bytes, 1)));
  return std::min(width - 1, kSizeClasses - 1);
}

MeasuredTimes no_times() {
  MeasuredTimes times;
  for (auto& of_way : times) of_way.fill(kNoTime);
  return times;
}

void TunerSamples::begin(std::optional<SumPath> path, std::size_t bytes, TimePoint now) {
  const std::lock_guard lock(mutex_);
  if (in_flight_++ == 0) period_ = {.begin = now, .path = path};
  period_.is_mixed = period_.is_mixed || !path || path != period_.path;
  if (period_.is_mixed) return;
  period_.largest = std::max(period_.largest, bytes);
  period_.expected_ns += std::max<std::uint64_t>(figures_[index_of(*path)].nanoseconds(bytes), 1);
}

void TunerSamples::end(TimePoint now) {
  const std::lock_guard lock(mutex_);
  if (--in_flight_ == 0 && !period_.is_mixed) add(period_, now - period_.begin);
}

void TunerSamples::add(const Period& period, std::chrono::nanoseconds time) {
  const std::size_t path = index_of(*period.path);
  const std::size_t size_class = size_class_of(period.largest);
  const std::uint64_t of_least = figures_[path].nanoseconds(least_size_of(size_class));
  const double share = static_cast<double>(of_least) / static_cast<double>(period.expected_ns);
  const double microseconds = static_cast<double>(time.count()) / 1000 * share;
  const auto whole = static_cast<std::int32_t>(std::clamp(microseconds, 1.0, kNoTime - 1.0));
  std::int32_t& least = times_[path][size_class];
  least = std::min(least, whole);
}

MeasuredTimes TunerSamples::take() {
  const std::lock_guard lock(mutex_);
  const MeasuredTimes taken = times_;
  times_ = no_times();
  return taken;
}

Tuner::Tuner(const CostModels& figures) {
  for (std::size_t i = 0; i < kSizeClasses; ++i) {
    SizeClass& each = classes_[i];
    for (std::size_t path = 0; path < kSumPaths; ++path) {
      each.nanoseconds[path] = figures[path].nanoseconds(least_size_of(i));
    }
    // If both are equal, take the network, which leaves the ranks' own links more room.
    if (each.nanoseconds[index_of(SumPath::kRing)] <
        each.nanoseconds[index_of(SumPath::kNetwork)]) {
      each.path = SumPath::kRing;
    }
  }
}

bool Tuner::is_early_trial(SizeClass& each, std::uint64_t usual, std::uint64_t other) {
  if (each.operations > kEarlyTrials) return false;
  const bool is_first = each.operations++ == 0;
  return !is_first && other / kEarlyTrialCost <= usual;
}

SumPath Tuner::next(std::size_t bytes) {
  SizeClass& each = classes_[size_class_of(bytes)];
  const std::uint64_t usual = each.nanoseconds[index_of(each.path)];
  const std::uint64_t other = each.nanoseconds[index_of(other_of(each.path))];
  if (is_early_trial(each, usual, other)) {
    ++trials_;
    return other_of(each.path);
  }
  // Even a trial that would lose nothing counts as a loss, so not every operation becomes a trial.
  const std::uint64_t lost = std::max(other > usual ? other - usual : 0, usual);
  each.spent += usual;
  if (each.spent / kTrialShare <= lost) return each.path;
  each.spent = 0;
  ++trials_;
  return other_of(each.path);
}

void Tuner::judge(const MeasuredTimes& times) {
  for (std::size_t i = 0; i < kSizeClasses; ++i) {
    SizeClass& each = classes_[i];
    for (std::size_t path = 0; path < kSumPaths; ++path) {
      if (times[path][i] == kNoTime) continue;
      each.nanoseconds[path] = static_cast<std::uint64_t>(std::max(times[path][i], 1)) * 1000;
    }
    const std::uint64_t usual = each.nanoseconds[index_of(each.path)];
    const std::uint64_t other = each.nanoseconds[index_of(other_of(each.path))];
    if (usual * 100 <= other * kKeepsPercent) continue;
    each.path = other_of(each.path);
    ++changes_;
  }
}

std::optional<std::size_t> Tuner::ring_from() const {
  std::optional<std::size_t> from;
  for (std::size_t i = kSizeClasses; i > 0 && classes_[i - 1].path == SumPath::kRing; --i) {
    from = least_size_of(i - 1);
  }
  return from;
}

}  // namespace atp
