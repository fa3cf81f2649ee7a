#pragma once

#include <compare>
#include <map>
#include <string>
#include <vector>

#include "atp/cli/command/log.h"
#include "atp/cli/node/node_keys.h"
#include "atp/cli/node/report.h"

// The log lines of a switch or server about ranks that hold up their job: one when that begins, one
// when more ranks hold it up, and one when it is over. A rank that is late in every step is not
// logged in every step.

namespace atp {

class StuckLog {
 public:
  // How often to check.
  static constexpr Duration kBetweenLooks = std::chrono::milliseconds(250);

  // The minimum between two lines about the same ranks, as for workers
  // (WorkerConfig::tell_waiting_pause).
  static constexpr Duration kPause = std::chrono::seconds(10);

  // How long ranks may have been waited for before they are logged without the operation's name.
  static constexpr Duration kPatience = std::chrono::milliseconds(1500);

  explicit StuckLog(const JobNames& names = JobNames()) : names_(names) {}

  // The lines for what has begun or ended since the last call.
  std::vector<LogLine> lines(const std::vector<StuckRanks>& now_stuck, Instant now);

 private:
  struct Key {
    JobKey job;
    std::uint16_t first_stream = 0;
    auto operator<=>(const Key&) const = default;
  };
  // Kept for kPause after its end.
  struct Episode {
    RankSet named;
    std::string text;   // the ranks, as last logged
    RankSet ranks;      // the same
    Duration waited{};  // at the last check
    bool is_there = false;
    RankSet named_last;
    Instant named_at{};
  };
  const JobNames names_;
  std::map<Key, Episode> episodes_;
};

}  // namespace atp
