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
#include "atp/collective/peer/reduction.h"

// What a caller asks of a mesh of ranks: a collective, or a transfer between two of them.

namespace atp {

using ConstBytes = std::span<const std::byte>;
using Bytes = std::span<std::byte>;

enum class PeerCall : std::uint8_t {
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

std::string_view to_string(PeerCall call);

constexpr bool is_transfer(PeerCall call) {
  return call == PeerCall::kSend || call == PeerCall::kReceive;
}

// Of a receive: whoever sends.
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
// Blocks are by rank and may have any lengths, 0 too. The memory must live until the end.
struct PeerRequest {
  PeerCall call = PeerCall::kBarrier;
  ElementKind kind = ElementKind::kByte;
  ElementReduction reduction = ElementReduction::kNone;
  std::size_t root = 0;   // the peer of a transfer
  std::uint32_t tag = 0;  // of a transfer
  // What the caller calls the elements' type; other ranks must call it the same.
  std::uint8_t type = 0;
  // A number that reserve() has given; else the next one.
  std::optional<std::uint64_t> number;
  // Of a monitored barrier: all ranks that are missing are named, and not the first one.
  bool names_all = true;
  std::vector<ConstBytes> inputs;
  std::vector<Bytes> outputs;
  std::chrono::milliseconds timeout{0};  // in all; 0: the mesh's
  // Called once when the operation has ended, before wait() returns, on the mesh's thread, or in
  // submit() itself where it is refused or the mesh has one rank; must not block.
  std::function<void(const Status&)> on_done;
};

// Why the request cannot be carried out by one of so many ranks.
Status check(const PeerRequest& request, std::size_t rank, std::size_t ranks);

// What all ranks must say alike of the operation.
std::uint64_t total_bytes(const PeerRequest& request);

}  // namespace atp
