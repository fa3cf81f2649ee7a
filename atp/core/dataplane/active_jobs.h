#pragma once

#include <algorithm>
#include <cstdint>

// Which jobs are active at a switch, and how much they weigh together (docs/inside/protocol §4,
// *Sharing*, rule 1). Who holds aggregators at one moment would not do: a job's packets come in
// trains, and between two of them it may hold none.

namespace atp {

class ActiveJobs {
 public:
  static constexpr std::uint32_t kPeriod = 64;  // claims, at least
  using Period = std::uint64_t;

  explicit ActiveJobs(std::uint32_t aggregators) : claims_(std::max(aggregators, kPeriod)) {}

  // `last` is the period in which a job was active last; 0: never.
  bool active(Period last) const { return last + 1 >= period_; }
  std::uint64_t weight() const { return now_ + before_; }

  // The job is active in this period.
  void note(Period& last, std::uint32_t weight) {
    if (last == period_) return;
    forget(last, weight);
    now_ += weight;
    last = period_;
  }
  // An aggregator was claimed.
  void count_claim() {
    if (++claimed_ < claims_) return;
    claimed_ = 0;
    before_ = now_;
    now_ = 0;
    ++period_;
  }
  void reweigh(Period last, std::uint32_t before, std::uint32_t weight) {
    if (last == period_) now_ += std::uint64_t{weight} - before;
    if (last + 1 == period_) before_ += std::uint64_t{weight} - before;
  }
  void forget(Period& last, std::uint32_t weight) {
    reweigh(last, weight, 0);
    last = 0;
  }

  bool operator==(const ActiveJobs&) const = default;

 private:
  std::uint32_t claims_;
  std::uint32_t claimed_ = 0;  // in this period
  Period period_ = 2;          // so that 0 is long ago
  std::uint64_t now_ = 0;      // the weight of the jobs that are active in this period
  std::uint64_t before_ = 0;   // and of the others that were in the one before
};

}  // namespace atp
