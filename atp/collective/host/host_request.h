#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "atp/base/rank_set.h"

// The collectives besides all-reduce for ranks that share memory.

namespace atp {

enum class HostCollective : std::uint8_t { kAllReduce, kReduceScatter, kAllGather, kBroadcast };

constexpr const char* name_of(HostCollective collective) {
  switch (collective) {
    case HostCollective::kAllReduce: return "all_reduce";
    case HostCollective::kReduceScatter: return "reduce_scatter";
    case HostCollective::kAllGather: return "all_gather";
    case HostCollective::kBroadcast: return "broadcast";
  }
  return "unknown";
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
  Rank root = 0;  // of a broadcast
  // The element type of all-gather and broadcast, for messages; all ranks must use the same.
  std::string element = "uint8";
  std::size_t element_bytes = 1;
};

}  // namespace atp
