#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "atp/base/result.h"
#include "atp/wire/number_format.h"

// What a caller asks of a ring. Every collective works on blocks, one for each rank: block b is the
// part of the result that rank b owns. Blocks may have any lengths, 0 too, the same on all ranks.

namespace atp {

// A ring adds floats of both widths; anything else it only carries, as bytes.
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
  // The blocks by rank. All-reduce: both the same memory. Reduce-scatter: `outputs` is this rank's
  // block alone, and the inputs stay as they are. All-gather: `inputs` is this rank's block alone.
  // The memory must live until the end.
  std::vector<ConstBytes> inputs;
  std::vector<Bytes> outputs;
  // Of an all-reduce of float32, whose blocks must lie side by side: what its sums travel as, with
  // the bits that they have in the network, and the lengths of the tensors that the values are made
  // up of (empty: one), so that no unit is agreed on for values of two.
  NumberFormat format = NumberFormat::kBlocks;
  std::vector<std::size_t> segments;
  std::chrono::milliseconds timeout{0};  // without progress; 0: the ring's
  // Called once when the operation has ended, before wait() returns, on the ring's thread, or in
  // submit() itself where it is refused or the ring has one rank; must not block.
  std::function<void(const Status&)> on_done;
};

// An all-reduce of float32: it follows the rule of numbers (docs/protocol.md §5).
bool follows_number_rule(const RingRequest& request);

// In place, over all `values`: blocks as equal as whole elements allow.
RingRequest all_reduce_request(ElementType type, Bytes values, std::size_t ranks);
// `values` is as many equal blocks as there are ranks.
RingRequest reduce_scatter_request(ElementType type, ConstBytes values, Bytes block,
                                   std::size_t ranks);
RingRequest all_gather_request(ElementType type, ConstBytes block, Bytes values, std::size_t ranks);

// Why the request cannot be carried out by one of so many ranks.
Status check(const RingRequest& request, std::size_t rank, std::size_t ranks);

// The lengths of all blocks.
std::vector<std::size_t> block_bytes(const RingRequest& request);

}  // namespace atp
