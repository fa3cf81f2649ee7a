#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <vector>

// The memory of plans, kept for later ones: the first use of fresh pages takes as long as adding
// them up. What was used last is kept, up to a limit.

namespace atp {

struct Scratch {
  std::unique_ptr<std::byte[]> memory;
  std::size_t bytes = 0;
};

class SpareMemory {
 public:
  static constexpr std::size_t kMost = 64 * 1024 * 1024;
  static constexpr std::size_t kLeast = 64 * 1024;  // smaller pieces come from malloc's own pages

  // At least this many bytes, at most twice as many.
  Scratch take(std::size_t bytes);
  void give(std::vector<Scratch> used);
  std::size_t bytes() const { return bytes_; }

 private:
  std::deque<Scratch> spare_;  // what was used last is at the front
  std::size_t bytes_ = 0;
};

}  // namespace atp
