#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "atp/collective/communicator.h"

// How tensors are spread over the server shards of a job. All ranks submit the same tensors in the
// same order, so all choose the same.

namespace atp {

class Shards {
 public:
  struct Part {
    std::size_t shard = 0;
    std::size_t begin = 0;  // values
    std::size_t end = 0;
    bool operator==(const Part&) const = default;
  };

  // A part of a tensor is not smaller than this: 256 KiB, a window in flight.
  static constexpr std::size_t kLeastPart = 65536;

  explicit Shards(std::size_t count) : values_(count) {}

  // Contiguous parts of nearly one length, cut where blocks begin, for the shards that have had the
  // fewest values so far, ties to the lowest (paper §4); one part for a small tensor. Where the
  // cuts are depends on the lengths alone, and as no block is cut, no result depends on them.
  std::vector<Part> split(const BlockLayout& layout);

 private:
  std::vector<std::uint64_t> values_;  // so far, by shard
};

// The routes to all shards: `route`, then `more_routes`.
std::vector<std::vector<Endpoint>> all_routes(const CommunicatorOptions& options);

// Calls `done` when it has been called so many times itself, with the first error that it was told.
// Thread-safe.
std::function<void(const Status&)> after(std::size_t times,
                                         std::function<void(const Status&)> done);

}  // namespace atp
