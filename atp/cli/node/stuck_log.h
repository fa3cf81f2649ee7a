#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "atp/base/time.h"
#include "atp/cli/command/log.h"
#include "atp/cli/status/node_status.h"

// The log lines of a switch or server about ranks that hold up their job: one when that begins, one
// when more ranks hold it up, and one when it is over. A straggler of every step is not
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

  // How many ranks a line names with their hosts.
  static constexpr std::size_t kMostNamed = 8;

  // The lines for what has begun or ended since the last call. `with_hosts()` returns the same
  // jobs, in which so many ranks have their hosts; it is called only for a line that names some.
  using Look = std::function<std::vector<JobStatus>()>;
  std::vector<LogLine> lines(const std::vector<JobStatus>& jobs, Instant now,
                             const Look& with_hosts);

 private:
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
  std::map<std::pair<JobName, std::uint64_t>, Episode> episodes_;  // by first stream, too
};

}  // namespace atp
