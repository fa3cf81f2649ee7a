#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "atp/base/rank_set.h"
#include "atp/base/time.h"

namespace atp {

// Ranks that an operation waits for.
struct WaitedForRanks {
  std::vector<Rank> ranks;  // none: it waits for a silent server
  Duration waited{};
  std::string operation;  // "all_reduce #17 (1,000 values)"; empty: an internal one
  std::string why;        // of a wait in the network: a sentence that names whom it waits for
};

// Tells the user for whom this rank waits: after a second, then more and more rarely, and once when
// the ranks go on. The memory and peer paths each have one; how a path finds the ranks is its own
// affair. (In the network the server finds them, see EventKind::kWaiting.)
class LateRanks {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // The same as in the network (WorkerConfig::tell_waiting).
  static constexpr std::chrono::seconds kToTell{1};
  // The first pause between two lines about the same ranks; each is twice as long as the one
  // before.
  static constexpr std::chrono::seconds kPause{10};

  struct Line {
    std::string text;
    RankSet ranks;
    bool is_over = false;  // they have resumed
  };

  // All ranks of the job that are awaited now, and have been for a second. `since`: when the wait
  // for those that are new here began. `why`: what each does, or has not done.
  void observe(Time now, const RankSet& ranks, Time since, const std::function<std::string()>& why);
  // It waits, but for no rank.
  void add_line(const std::string& text) { lines_.push_back({.text = text, .ranks = {}}); }
  // There is nothing left to wait for.
  void end(Time now) { observe(now, {}, now, nullptr); }

  std::optional<Line> take_line();
  const RankSet& ranks() const { return ranks_; }
  // Since when it has waited for the one that it has waited for the longest.
  std::optional<Time> since() const;
  // When there may be another line, if the ranks stay the same.
  std::optional<Time> next_line() const;
  // How long it has waited for each rank, in all waits that have ended.
  const std::map<Rank, Duration>& waits() const { return waits_; }
  std::optional<WaitedForRanks> waited_for(Time now, const std::string& operation) const;

 private:
  void tell_of_resumed(Time now, const RankSet& ranks);

  RankSet ranks_;
  std::map<Rank, Time> since_;  // of ranks_
  RankSet told_;                // those of ranks_ that a line has named
  RankSet named_;               // by the last line
  Time again_{};                // no earlier line about the same ranks
  Time repeat_{};               // the next line, if nothing changes
  std::chrono::seconds pause_{kPause};
  std::deque<Line> lines_;
  std::map<Rank, Duration> waits_;
};

// "atp: TEXT" on stderr.
void tell_on_stderr(const std::string& text);

}  // namespace atp
