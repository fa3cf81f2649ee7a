#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <utility>

#include "atp/sim/run_seed.h"

namespace atp {

// Runs many seeds in order until one fails; each thread takes the next one. `report` receives the
// progress and the failure. What a seed does is the caller's affair.
class Soak {
 public:
  struct Range {
    std::uint64_t first = 0;
    std::uint64_t count = 1;
    unsigned threads = 1;
  };
  using Play = std::function<sim::Outcome(std::uint64_t seed, sim::Tally& tally)>;
  using Report = std::function<void(const std::string&)>;

  Soak(const Range& range, Play play, Report report, std::chrono::milliseconds report_interval)
      : range_(range),
        play_(std::move(play)),
        report_(std::move(report)),
        report_interval_(report_interval),
        next_(range.first) {}

  // Returns how the first failing seed ended, or kHeld.
  sim::Ending run();
  const sim::Tally& tally() const { return tally_; }

 private:
  void play_seeds();
  void note(std::uint64_t seed, const sim::Outcome& outcome);
  void report_progress();

  Range range_;
  Play play_;
  Report report_;
  std::chrono::milliseconds report_interval_;
  std::atomic<std::uint64_t> next_;
  std::atomic<bool> failed_ = false;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::mutex mutex_;
  std::chrono::steady_clock::time_point reported_ = begin_;
  std::uint64_t held_ = 0;
  sim::Tally tally_;
  sim::Ending ending_ = sim::Ending::kHeld;
};

}  // namespace atp
