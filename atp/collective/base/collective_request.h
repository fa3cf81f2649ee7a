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

// Whether it combines values; the others move bytes.
constexpr bool adds(Collective call) {
  return call == Collective::kReduce || call == Collective::kAllReduce ||
         call == Collective::kReduceScatter;
}

constexpr bool is_in_place(Collective call) {
  return call == Collective::kBroadcast || call == Collective::kAllReduce;
}

// Whether each block goes from one rank to one other, and only these two know its length.
constexpr bool exchanges(Collective call) {
  return call == Collective::kGather || call == Collective::kScatter ||
         call == Collective::kAllToAll;
}

constexpr bool has_root(Collective call) {
  return call == Collective::kBroadcast || call == Collective::kReduce ||
         call == Collective::kGather || call == Collective::kScatter || is_transfer(call);
}

// An operation of the user, as messages name it.
struct UserOperation {
  std::uint64_t number = 0;
  std::uint64_t values = 0;
  std::uint32_t tag = 0;
};

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
// Blocks are in the order of ranks and may have any length, even 0. Inputs and outputs do not
// overlap, except that the block which a rank keeps may be in its place already. The memory must
// live until the operation ends.
struct CollectiveRequest {
  Collective call = Collective::kBarrier;
  ElementKind kind = ElementKind::kByte;
  ElementReduction reduction = ElementReduction::kNone;
  std::size_t root = 0;  // the peer of a transfer
  // Of a transfer; otherwise the call site, and ranks at different ones get an error.
  std::uint32_t tag = 0;
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
  // False: the time-out ends the operation only if it makes no progress for that long.
  bool timeout_is_total = true;
  // What earlier steps of the caller's operation have used of the time-out.
  std::chrono::milliseconds spent{0};
  // The caller will wait for it at once: if that saves time, submit() itself carries it out, with
  // everything started before.
  bool here = false;
  // An internal measurement that all ranks make before the first operation: it has no number, is in
  // no digest, does not wait for its turn, and takes the network.
  bool is_probe = false;
  // The user's operation that this one is a part of, for messages.
  std::optional<UserOperation> part_of;
  // Called once when the operation has ended, before wait() returns, on the group's thread, or in
  // submit() itself if the request is refused or the group has one rank; must not block.
  std::function<void(const Status&)> on_done;
};

// Checks whether `rank`, one of `ranks`, can carry out the request.
Status check(const CollectiveRequest& request, std::size_t rank, std::size_t ranks);

// The block that a rank has for, or gets from, `other`: one of `ranks`, or the only one.
template <class Block>
Block block_of(const std::vector<Block>& blocks, std::size_t other, std::size_t ranks) {
  return blocks.empty() ? Block() : blocks[blocks.size() == ranks ? other : 0];
}

std::size_t longest_block(const CollectiveRequest& request);

// The operation's size, on which all ranks must agree.
std::uint64_t total_bytes(const CollectiveRequest& request);

}  // namespace atp
