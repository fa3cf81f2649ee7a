#include "atp/base/text.h"

#include <vector>

namespace atp {
namespace {

// Nobody reads a list that is longer than this in a message.
constexpr std::size_t kMaxItems = 8;

struct Run {
  std::size_t first;
  std::size_t last;
};

// Joins three or more consecutive ranks into a run ("0 to 2"); two stay separate ("0 and 1").
std::vector<Run> runs_of(const std::vector<std::size_t>& ranks) {
  std::vector<Run> runs;
  for (const std::size_t rank : ranks) {
    if (!runs.empty() && runs.back().last + 1 == rank) {
      runs.back().last = rank;
    } else {
      runs.push_back({rank, rank});
    }
  }
  std::vector<Run> split;
  for (const Run& run : runs) {
    if (run.last == run.first + 1) {
      split.push_back({run.first, run.first});
      split.push_back({run.last, run.last});
    } else {
      split.push_back(run);
    }
  }
  return split;
}

std::string run_text(const Run& run) {
  std::string text = std::to_string(run.first);
  if (run.last != run.first) text += " to " + std::to_string(run.last);
  return text;
}

}  // namespace

std::string with_commas(std::uint64_t number) {
  std::string digits = std::to_string(number);
  for (std::size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, ",");
  return digits;
}

std::string seconds_text(Duration duration) {
  const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
  std::string text = std::to_string(milliseconds / 1000);
  if (milliseconds % 1000 != 0) {
    std::string fraction = std::to_string(1000 + milliseconds % 1000).substr(1);
    while (fraction.back() == '0') fraction.pop_back();
    text += "." + fraction;
  }
  return text + " s";
}

std::string overdue_text(Duration time_out) {
  return "not ended within its timeout of " + seconds_text(time_out);
}

std::string ranks_text(const RankSet& ranks) {
  std::vector<std::size_t> list;
  ranks.for_each([&](Rank rank) { list.push_back(rank); });
  return ranks_text(list);
}

std::string ranks_text(const std::vector<std::size_t>& ranks) {
  const std::vector<Run> runs = runs_of(ranks);
  if (runs.empty()) return "no rank";
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  std::size_t told = 0;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const bool last = i + 1 == runs.size();
    if (i == kMaxItems && !last) {
      return text + " and " + std::to_string(ranks.size() - told) + " others";
    }
    if (i > 0) text += last ? " and " : ", ";
    text += run_text(runs[i]);
    told += runs[i].last - runs[i].first + 1;
  }
  return text;
}

}  // namespace atp
