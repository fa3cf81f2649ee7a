#include "atp/cli/node/stuck_log.h"

#include <fmt/core.h>

#include "atp/base/text.h"

namespace atp {
namespace {

std::string tenths_text(Duration duration) {
  return seconds_text(duration - duration % std::chrono::milliseconds(100));
}

}  // namespace

std::vector<std::string> StuckLog::lines(const std::vector<StuckRanks>& now_stuck) {
  std::vector<std::string> lines;
  for (auto& [key, episode] : episodes_) episode.is_there = false;
  for (const StuckRanks& stuck : now_stuck) {
    Episode& episode = episodes_[{stuck.job, stuck.first_stream}];
    episode.is_there = true;
    episode.waited = std::max(episode.waited, stuck.waited);
    RankSet ranks;
    for (const auto& [rank, home] : stuck.ranks) ranks.insert(rank);
    if (episode.named.contains(ranks)) continue;
    episode.named |= ranks;
    episode.text = stuck_text(stuck);
    lines.push_back(fmt::format("job {} has waited {} for {}", stuck.job.job,
                                tenths_text(stuck.waited), episode.text));
  }
  for (auto it = episodes_.begin(); it != episodes_.end();) {
    if (it->second.is_there) {
      ++it;
      continue;
    }
    lines.push_back(fmt::format("job {} no longer waits for {}, after {}", it->first.job.job,
                                it->second.text, tenths_text(it->second.waited)));
    it = episodes_.erase(it);
  }
  return lines;
}

}  // namespace atp
