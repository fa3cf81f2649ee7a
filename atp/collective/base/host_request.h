#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "atp/base/rank_set.h"
#include "atp/collective/base/reduction.h"

// The collectives for ranks that share memory, except all-reduces by the rule of numbers.

namespace atp {

enum class HostCollective : std::uint8_t {
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kBroadcast,
  kReduce,
  kGather,
  kScatter,
  kAllToAll,
};

constexpr const char* name_of(HostCollective collective) {
  switch (collective) {
    case HostCollective::kAllReduce: return "all_reduce";
    case HostCollective::kReduceScatter: return "reduce_scatter";
    case HostCollective::kAllGather: return "all_gather";
    case HostCollective::kBroadcast: return "broadcast";
    case HostCollective::kReduce: return "reduce";
    case HostCollective::kGather: return "gather";
    case HostCollective::kScatter: return "scatter";
    case HostCollective::kAllToAll: return "all_to_all";
  }
  return "unknown";
}

// Whether it adds values; the others move bytes.
constexpr bool adds(HostCollective collective) {
  return collective == HostCollective::kAllReduce || collective == HostCollective::kReduceScatter ||
         collective == HostCollective::kReduce;
}

// Whether each block goes from one rank to one other, and only these two know its length.
constexpr bool exchanges(HostCollective collective) {
  return collective == HostCollective::kGather || collective == HostCollective::kScatter ||
         collective == HostCollective::kAllToAll;
}

constexpr bool has_root(HostCollective collective) {
  return collective == HostCollective::kBroadcast || collective == HostCollective::kReduce ||
         collective == HostCollective::kGather || collective == HostCollective::kScatter;
}

// The arguments of such a collective.
struct HostRequest {
  HostCollective collective = HostCollective::kBroadcast;
  // All-gather: the bytes of each rank's block. Reduce-scatter: the values of each rank's share,
  // together those of the tensor. The same on all ranks.
  std::vector<std::size_t> lengths;
  // All-gather: the destination of each rank's block (this rank's own may be there already).
  // Reduce-scatter: one destination, for this rank's share of the sum; it may be the share's place
  // in the tensor.
  std::vector<std::byte*> outputs;
  // Gather, scatter and all-to-all: this rank's block for each rank, and the destination of the
  // block of each rank. A gather uses only blocks to the root, a scatter only blocks from the root.
  // Only this rank's block for itself and its destination may overlap, if they are the same memory.
  std::vector<std::span<const std::byte>> blocks_to;
  std::vector<std::span<std::byte>> blocks_from;
  Rank root = 0;
  // A collective that adds: what it combines, in the order of ranks. kNone: values by the rule of
  // numbers (shm/row_reduction.h).
  ElementKind kind = ElementKind::kByte;
  ElementReduction reduction = ElementReduction::kNone;
  // The element type of a collective that moves bytes, for messages; all ranks must use the same.
  std::string element = "uint8";
  std::size_t element_bytes = 1;
};

// For collectives that exchange blocks: this rank's longest.
std::size_t longest_block(const HostRequest& request);

}  // namespace atp
