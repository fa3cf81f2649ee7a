#pragma once

#include <cstdint>

#include "atp/collective/ring/request.h"

// Precedes an operation's first stage on each connection, so that ranks that call different
// operations get an error instead of a wrong sum. It is in host byte order; a machine with another
// order is refused when it connects.

namespace atp {

struct OperationHeader {
  std::uint32_t magic = 0;
  RingCollective collective = RingCollective::kAllReduce;
  ElementType type = ElementType::kFloat32;
  Reduction reduction = Reduction::kSum;
  NumberFormat format = NumberFormat::kFixed;  // of an all-reduce of float32
  std::uint64_t number = 0;                    // of the operation, from 0
  std::uint64_t bytes = 0;                     // of all blocks
  std::uint64_t shape = 0;  // a hash of the blocks' lengths, and those of the segments

  bool operator==(const OperationHeader&) const = default;
};
static_assert(sizeof(OperationHeader) == 32, "sent as it lies in memory, so without padding");

OperationHeader make_header(const RingRequest& request, std::uint64_t number);

// "all_reduce #17 (1,000 float32, average)": what a rank has called.
std::string describe(const OperationHeader& header);

}  // namespace atp
