#pragma once

#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "atp/cli/status/finding.h"

// What has begun and what has ended between two looks at the same thing.

namespace atp {

class Episodes {
 public:
  // The least time between two mentions of the same ranks, as for workers
  // (WorkerConfig::tell_waiting_pause): a straggler of every step is not news in every step.
  static constexpr double kPauseSeconds = 10;

  // Takes all that is so at this time. Returns the findings that are new or name further ranks, and
  // one of severity kGood, with the text `over`, for each that was returned and has ended.
  std::vector<Finding> take(std::vector<Finding> found, double now_s);

  // Those of the last call, in its order, each since its first one.
  const std::vector<Finding>& lasting() const { return lasting_; }
  // Of these, the one of this kind about this job; null: there is none.
  const Finding* find(std::string_view kind, const JobName& job) const;

 private:
  using Ranks = std::vector<std::size_t>;
  // Kept for a pause after its end.
  struct Episode {
    std::uint64_t look = 0;  // in which it was found last
    std::size_t index = 0;   // in `lasting_`
    double since_s = 0;
    std::optional<Finding> told;  // in this episode
    Ranks told_ranks;
    Ranks told_last;  // also in the one before
    double told_at_s = -std::numeric_limits<double>::infinity();
  };

  std::map<std::string, Episode> episodes_;  // by what they are about
  std::vector<Finding> lasting_;
  std::uint64_t look_ = 0;
};

}  // namespace atp
