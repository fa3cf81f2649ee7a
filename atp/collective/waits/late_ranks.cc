#include "atp/collective/waits/late_ranks.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "atp/base/text.h"

namespace atp {
namespace {

constexpr std::chrono::milliseconds kTenth{100};

}  // namespace

void LateRanks::observe(Time now, const RankSet& ranks, Time since,
                        const std::function<std::string()>& why) {
  const RankSet resumed = ranks_ - ranks;
  if (!resumed.empty()) tell_of_resumed(now, resumed);
  (ranks - ranks_).for_each([&](Rank rank) { since_[rank] = since; });
  ranks_ = ranks;
  if (ranks.empty()) return;
  const bool is_news = !told_.contains(ranks);
  // The same ranks may come and go.
  if (is_news ? now < again_ && named_ == ranks : now < repeat_) return;
  pause_ = is_news ? kPause : 2 * pause_;
  const auto waited = std::chrono::floor<std::chrono::seconds>(now - *this->since());
  lines_.push_back({.text = "waiting for " + seconds_text(waited) + ": " + why(), .ranks = ranks});
  told_ = named_ = ranks;
  again_ = now + kPause;
  repeat_ = now + pause_;
}

void LateRanks::tell_of_resumed(Time now, const RankSet& ranks) {
  const RankSet named = ranks & told_;
  Time first = now;
  ranks.for_each([&](Rank rank) {
    first = std::min(first, since_.at(rank));
    waits_[rank] += now - since_.at(rank);
    since_.erase(rank);
  });
  told_ -= ranks;
  if (named.empty()) return;
  const auto waited = now - first;
  lines_.push_back({.text = ranks_text(named) + (named.size() == 1 ? " has" : " have") +
                            " resumed: this rank waited for " +
                            seconds_text(waited - waited % kTenth),
                    .ranks = named,
                    .is_over = true});
}

std::optional<LateRanks::Line> LateRanks::take_line() {
  if (lines_.empty()) return std::nullopt;
  Line line = std::move(lines_.front());
  lines_.pop_front();
  return line;
}

std::optional<LateRanks::Time> LateRanks::since() const {
  if (since_.empty()) return std::nullopt;
  const auto earlier = [](const auto& one, const auto& other) { return one.second < other.second; };
  return std::min_element(since_.begin(), since_.end(), earlier)->second;
}

std::optional<LateRanks::Time> LateRanks::next_line() const {
  if (ranks_.empty()) return std::nullopt;
  return told_.contains(ranks_) ? repeat_ : again_;
}

std::optional<WaitedForRanks> LateRanks::waited_for(Time now, const std::string& operation) const {
  if (ranks_.empty()) return std::nullopt;
  WaitedForRanks waited{.ranks = {}, .waited = now - *since(), .operation = operation};
  ranks_.for_each([&](Rank rank) { waited.ranks.push_back(rank); });
  return waited;
}

void tell_on_stderr(const std::string& text) {
  static_cast<void>(std::fprintf(stderr, "atp: %s\n", text.c_str()));
}

}  // namespace atp
