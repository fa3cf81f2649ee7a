#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "atp/base/result.h"
#include "atp/collective/base/reduction.h"
#include "atp/wire/number_format.h"

// A caller's request to a group of ranks: a collective, or a transfer between two of them.

namespace atp {

using ConstBytes = std::span<const std::byte>;
using Bytes = std::span<std::byte>;

enum class Collective : std::uint8_t {
  kBroadcast = 1,
  kReduce,
  kGather,
  kScatter,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kAllReduce,
  kBarrier,
  kMonitoredBarrier,
  kSend,
  kReceive,
};

std::string_view to_string(Collective call);

constexpr bool is_transfer(Collective call) {
  return call == Collective::kSend || call == Collective::kReceive;
}

// For a receive from any sender.
inline constexpr std::size_t kAnyRank = std::numeric_limits<std::size_t>::max();

// | call            | inputs                    | outputs                      |
// | broadcast       |                           | the tensor, in place         |
// | reduce          | the tensor                | the sum, at the root only    |
// | gather          | this rank's block         | all blocks, at the root only |
// | scatter         | all blocks, at the root   | this rank's block            |
// | all_gather      | this rank's block         | all blocks                   |
// | reduce_scatter  | all blocks                | this rank's block            |
// | all_to_all      | a block for each rank     | a block of each rank         |
// | all_reduce      |                           | the tensor, in place         |
// | send, receive   | the tensor                | the tensor                   |
//
// Blocks are in the order of ranks and may have any length, even 0. The memory must live until the
// operation ends.
struct CollectiveRequest {
  Collective call = Collective::kBarrier;
  ElementKind kind = ElementKind::kByte;
  ElementReduction reduction = ElementReduction::kNone;
  std::size_t root = 0;   // the peer of a transfer
  std::uint32_t tag = 0;  // of a transfer
  // The caller's number for the element type; it must be the same on all ranks.
  std::uint8_t type = 0;
  // Sums go around a ring, whatever their size: block b is (((x[b+1] + x[b+2]) + ...) + x[b]), and
  // not added in the order of ranks. The ring's counters count the operation.
  bool around_ring = false;
  // For a sum or average of float32 in an all-reduce: by the rule of numbers (docs/inside/protocol
  // §5) in this format, with the same bits as from the network. `segments`: the lengths of the
  // tensors that the values consist of (empty: one), so that no block has values of two tensors.
  std::optional<NumberFormat> format;
  std::vector<std::size_t> segments;
  // A number from reserve(); otherwise the next one.
  std::optional<std::uint64_t> number;
  // For a monitored barrier: name all missing ranks, not only the first.
  bool names_all = true;
  std::vector<ConstBytes> inputs;
  std::vector<Bytes> outputs;
  std::chrono::milliseconds timeout{0};  // in total; 0: the group's
  // What earlier steps of the caller's operation have used of the time-out.
  std::chrono::milliseconds spent{0};
  // Called once when the operation has ended, before wait() returns, on the group's thread, or in
  // submit() itself if the request is refused or the group has one rank; must not block.
  std::function<void(const Status&)> on_done;
};

// Checks whether `rank`, one of `ranks`, can carry out the request.
Status check(const CollectiveRequest& request, std::size_t rank, std::size_t ranks);

// The operation's size, on which all ranks must agree.
std::uint64_t total_bytes(const CollectiveRequest& request);

}  // namespace atp
