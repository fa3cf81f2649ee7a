#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "atp/collective/base/options.h"

// How tensors are spread over the server shards of a job. All ranks submit the same tensors in the
// same order, so all make the same choice.

namespace atp {

class Shards {
 public:
  struct Part {
    std::size_t shard = 0;
    std::size_t begin = 0;  // values
    std::size_t end = 0;
    bool operator==(const Part&) const = default;
  };

  // The minimum number of values in a part: 256 KiB, as much as the first window.
  static constexpr std::size_t kLeastPart = 65536;

  explicit Shards(std::size_t count) : values_(count) {}

  // Cuts a tensor at block boundaries into contiguous parts of nearly equal length, for the shards
  // with the fewest values so far (among equals, the lowest; paper §4); a small tensor is one part.
  // The cuts depend on the lengths alone, and since no block is cut, no result depends on them.
  std::vector<Part> split(const BlockLayout& layout);

 private:
  std::vector<std::uint64_t> values_;  // so far, by shard
};

// The routes to all shards: `route`, then `more_routes`.
std::vector<std::vector<Endpoint>> all_routes(const CommunicatorOptions& options);

// Returns a function that calls `done` when it has been called `times` times, with the first error
// that it got. Thread-safe.
std::function<void(const Status&)> after(std::size_t times,
                                         std::function<void(const Status&)> done);

}  // namespace atp
