#pragma once

#include <compare>
#include <map>
#include <string>
#include <vector>

#include "atp/cli/node/report.h"

// The lines of a switch's or server's log about ranks that hold up their job: one when it begins,
// one when others join them, one when it is over. Who is late in each step is not news in each.

namespace atp {

class StuckLog {
 public:
  // How often to look.
  static constexpr Duration kBetweenLooks = std::chrono::milliseconds(250);

  // Between two lines about the same ranks, as a worker's (WorkerConfig::tell_waiting_pause).
  static constexpr Duration kPause = std::chrono::seconds(10);

  // What has begun or ended since the last call.
  std::vector<std::string> lines(const std::vector<StuckRanks>& now_stuck, Instant now);

 private:
  struct Key {
    JobKey job;
    std::uint16_t first_stream = 0;
    auto operator<=>(const Key&) const = default;
  };
  // It stays for the pause after its end.
  struct Episode {
    RankSet named;
    std::string text;   // of the ranks, as it was written last
    Duration waited{};  // as of the last look
    bool is_there = false;
    RankSet named_last;
    Instant named_at{};
  };
  std::map<Key, Episode> episodes_;
};

}  // namespace atp
