#include "atp/cli/status/episodes.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace atp {
namespace {

// The job of a finding about a node is an example.
std::string key_of(std::string_view kind, std::string_view node,
                   const std::optional<JobName>& job) {
  if (!node.empty() || !job) return fmt::format("{} {}", kind, node);
  return fmt::format("{} {} {} {}", kind, job->job, job->incarnation, job->tenant);
}

}  // namespace

std::vector<Finding> Episodes::take(std::vector<Finding> found, double now_s) {
  std::vector<Finding> news;
  ++look_;
  for (std::size_t i = 0; i < found.size(); ++i) {
    Finding& finding = found[i];
    const Ranks& ranks = finding.ranks;
    Episode& episode = episodes_[key_of(finding.kind, finding.node, finding.job)];
    const double since_s = finding.since_s.value_or(now_s);
    const bool goes_on = episode.look != 0 && episode.look + 1 == look_;
    episode.since_s = goes_on ? std::min(episode.since_s, since_s) : since_s;
    episode.look = look_;
    episode.index = i;
    const auto has_all = [&](const Ranks& told) {
      return std::includes(told.begin(), told.end(), ranks.begin(), ranks.end());
    };
    const bool is_recent = !ranks.empty() && now_s < episode.told_at_s + kPauseSeconds;
    if (!(episode.told && has_all(episode.told_ranks)) &&
        !(is_recent && has_all(episode.told_last))) {
      Ranks all;
      std::set_union(ranks.begin(), ranks.end(), episode.told_ranks.begin(),
                     episode.told_ranks.end(), std::back_inserter(all));
      episode.told_last = episode.told_ranks = std::move(all);
      episode.told_at_s = now_s;
      episode.told = finding;
      news.push_back(finding);
    }
    finding.since_s = episode.since_s;
  }
  for (auto& [key, episode] : episodes_) {
    if (episode.look == look_) continue;
    if (const auto& told = episode.told; told && !told->over.empty()) {
      news.push_back(
          {.severity = Severity::kGood,
           .kind = told->kind,
           .node = told->node,
           .job = told->job,
           .ranks = told->ranks,
           .text = fmt::format("{}, after {}", told->over, tenths_text(now_s - episode.since_s))});
    }
    episode.told.reset();
    episode.told_ranks.clear();
  }
  std::erase_if(episodes_, [&](const auto& entry) {
    return entry.second.look != look_ && now_s >= entry.second.told_at_s + kPauseSeconds;
  });
  lasting_ = std::move(found);
  return news;
}

const Finding* Episodes::find(std::string_view kind, const JobName& job) const {
  const auto found = episodes_.find(key_of(kind, "", job));
  return found == episodes_.end() || found->second.look != look_ ? nullptr
                                                                 : &lasting_[found->second.index];
}

}  // namespace atp
