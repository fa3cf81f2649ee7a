#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "atp/base/rank_set.h"
#include "atp/base/time.h"
#include "atp/wire/cause.h"
#include "atp/wire/endpoint.h"
#include "atp/wire/packet_view.h"

// Why jobs have failed, for displays. A job that fails is gone within a fraction of a second, too
// soon for whoever looks once a second.

namespace atp {

// The first of a job's ranks that was lost, or that left and said why.
struct JobFailure {
  JobKey job;
  Rank rank = 0;
  Endpoint home;    // unset: not known
  CauseText cause;  // empty: its lease has ended
  Instant at{};

  bool operator==(const JobFailure&) const = default;
};

// The last few failures, the oldest first.
class JobFailures {
 public:
  static constexpr std::size_t kMost = 16;

  void add(const JobFailure& failure) {
    if (count_ == kMost) std::shift_left(failures_.begin(), failures_.end(), 1);
    count_ = std::min(count_ + 1, kMost);
    failures_[count_ - 1] = failure;
    ++added_;
  }
  std::uint64_t added() const { return added_; }  // since the start
  const JobFailure* begin() const { return failures_.data(); }
  const JobFailure* end() const { return failures_.data() + count_; }

  bool operator==(const JobFailures&) const = default;

 private:
  std::array<JobFailure, kMost> failures_{};
  std::size_t count_ = 0;
  std::uint64_t added_ = 0;
};

}  // namespace atp
