#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "atp/base/rank_set.h"

// What ranks that share memory can do in it beside an all-reduce.

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

// Of one that is no all-reduce.
struct HostRequest {
  HostCollective collective = HostCollective::kBroadcast;
  // Of an all-gather the bytes of each rank's block; of a reduce-scatter the values of each rank's
  // share, which together are the tensor's. The same at all ranks.
  std::vector<std::size_t> lengths;
  // Of an all-gather where each rank's block goes (this rank's own may be there already); of a
  // reduce-scatter, a single one, where this rank's share of the sum goes, which may be its place
  // in the tensor.
  std::vector<std::byte*> outputs;
  Rank root = 0;  // of a broadcast
  // Of what is moved as it is, for messages, and so that all ranks mean the same.
  std::string element = "uint8";
  std::size_t element_bytes = 1;
};

}  // namespace atp
