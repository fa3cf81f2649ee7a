#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

#include "atp/sim/part.h"

namespace atp::sim {

// Looks, many times a second, what the thread that made it is at.
class PartSampler {
 public:
  using Counts = std::array<std::uint64_t, kPartNames.size()>;

  PartSampler() : thread_([this, watched = &Within::current] { sample(*watched); }) {}
  ~PartSampler() {
    stop_ = true;
    thread_.join();
  }
  PartSampler(const PartSampler&) = delete;
  PartSampler& operator=(const PartSampler&) = delete;

  Counts counts() const {
    Counts counts{};
    for (std::size_t i = 0; i < counts.size(); ++i) counts[i] = counts_[i];
    return counts;
  }

 private:
  void sample(const std::atomic<Part>& watched) {
    while (!stop_) {
      ++counts_[static_cast<std::size_t>(watched.load(std::memory_order_relaxed))];
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }

  std::array<std::atomic<std::uint64_t>, kPartNames.size()> counts_{};
  std::atomic<bool> stop_ = false;
  std::thread thread_;  // last, as it uses the others
};

}  // namespace atp::sim
