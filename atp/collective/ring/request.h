#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "atp/base/result.h"
#include "atp/wire/number_format.h"

// A caller's request to a ring. Every collective works on blocks, one per rank: block b is the part
// of the result that rank b owns. Blocks may have any length, even 0, the same on all ranks.

namespace atp {

// A ring adds floats of both widths; it only carries anything else, as bytes.
enum class ElementType : std::uint8_t { kFloat32 = 1, kFloat64 = 2, kByte = 3 };

constexpr std::size_t bytes_of(ElementType type) {
  switch (type) {
    case ElementType::kFloat32: return 4;
    case ElementType::kFloat64: return 8;
    case ElementType::kByte: break;
  }
  return 1;
}

constexpr std::string_view to_string(ElementType type) {
  switch (type) {
    case ElementType::kFloat32: return "float32";
    case ElementType::kFloat64: return "float64";
    case ElementType::kByte: break;
  }
  return "byte";
}

enum class RingCollective : std::uint8_t { kAllReduce = 1, kReduceScatter = 2, kAllGather = 3 };

std::string_view to_string(RingCollective collective);

using ConstBytes = std::span<const std::byte>;
using Bytes = std::span<std::byte>;

struct RingRequest {
  RingCollective collective = RingCollective::kAllReduce;
  ElementType type = ElementType::kFloat32;
  Reduction reduction = Reduction::kSum;
  // The blocks by rank. All-reduce: both are the same memory. Reduce-scatter: `outputs` is only
  // this rank's block, and the inputs do not change. All-gather: `inputs` is only this rank's
  // block. The memory must live until the operation ends.
  std::vector<ConstBytes> inputs;
  std::vector<Bytes> outputs;
  // For an all-reduce of float32, whose blocks must be contiguous: the format of its sums, which
  // have the same bits as from the network, and the lengths of the tensors that the values consist
  // of (empty: one), so that no unit is shared by values of two tensors.
  NumberFormat format = NumberFormat::kBlocks;
  std::vector<std::size_t> segments;
  std::chrono::milliseconds timeout{0};  // without progress; 0: the ring's
  // The time-out counts from submit(), and ends an operation even if it makes progress.
  bool timeout_is_total = false;
  std::chrono::milliseconds spent{0};  // of a total time-out, before submit()
  // Called once when the operation has ended, before wait() returns, on the ring's thread, or in
  // submit() itself if the request is refused or the ring has one rank; must not block.
  std::function<void(const Status&)> on_done;
};

// Whether it is an all-reduce of float32, which follows the rule of numbers (docs/inside/protocol
// §5).
bool follows_number_rule(const RingRequest& request);

// In place, over all `values`, with blocks as equal as whole elements allow.
RingRequest all_reduce_request(ElementType type, Bytes values, std::size_t ranks);
// `values` consists of one equal block per rank.
RingRequest reduce_scatter_request(ElementType type, ConstBytes values, Bytes block,
                                   std::size_t ranks);
RingRequest all_gather_request(ElementType type, ConstBytes block, Bytes values, std::size_t ranks);

// Checks whether `rank`, one of `ranks`, can carry out the request.
Status check(const RingRequest& request, std::size_t rank, std::size_t ranks);

// The lengths of all blocks.
std::vector<std::size_t> block_bytes(const RingRequest& request);

}  // namespace atp
