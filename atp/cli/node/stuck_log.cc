#include "atp/cli/node/stuck_log.h"

#include <fmt/core.h>

#include "atp/base/text.h"
#include "atp/cli/node/node_keys.h"
#include "atp/cli/status/status_table.h"

namespace atp {
namespace {

std::string tenths_text(Duration duration) {
  return seconds_text(duration - duration % std::chrono::milliseconds(100));
}

}  // namespace

std::vector<LogLine> StuckLog::lines(const std::vector<JobStatus>& jobs, Instant now,
                                     const Look& with_hosts) {
  std::vector<LogLine> lines;
  std::vector<JobStatus> named;
  for (auto& [key, episode] : episodes_) episode.is_there = false;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const JobStatus& job = jobs[i];
    if (!job.stuck) continue;
    const StuckJob& stuck = *job.stuck;
    const JobName name = name_of_job(job);
    const Duration waited = std::chrono::round<std::chrono::milliseconds>(
        std::chrono::duration<double>(stuck.waited_s));
    Episode& episode = episodes_[{name, job.first_stream}];
    episode.is_there = true;
    episode.waited = std::max(episode.waited, waited);
    RankSet ranks;
    for (const StuckRank& one : stuck.ranks) ranks.insert(static_cast<Rank>(one.rank));
    // The ranks describe their operation once the server has told them that it waits.
    if (stuck.operation.empty() && waited < kPatience) continue;
    const bool lately = now < episode.named_at + kPause && episode.named_last.contains(ranks);
    if (episode.named.contains(ranks) || lately) continue;
    episode.named |= ranks;
    episode.named_last = episode.named;
    episode.named_at = now;
    if (named.empty()) named = with_hosts();
    episode.text = stuck_text(*named[i].stuck, kMostNamed);
    episode.ranks = ranks;
    lines.push_back(
        {fmt::format("{} has waited {} for {}", name_of(name), tenths_text(waited), episode.text),
         about(name, ranks)});
  }
  for (auto& [key, episode] : episodes_) {
    if (episode.is_there) continue;
    if (!episode.named.empty()) {
      lines.push_back({fmt::format("{} no longer waits for {}, after {}", name_of(key.first),
                                   episode.text, tenths_text(episode.waited)),
                       about(key.first, episode.ranks)});
    }
    episode.named.clear();
    episode.waited = {};
  }
  std::erase_if(episodes_, [now](const auto& entry) {
    return !entry.second.is_there && now >= entry.second.named_at + kPause;
  });
  return lines;
}

}  // namespace atp
