#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <string>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <vector>

#include "atp/collective/base/collective_request.h"
#include "python/csrc/buffers.h"

// Converts tensors to the types of atp/collective/peer.

namespace atp::pytorch {

// A literal, as in messages.
const char* dtype_name(at::ScalarType type);
// The type's name in messages of atp/collective/peer.
std::string type_name(std::uint8_t type);
ElementKind kind_of(at::ScalarType type);

// Refuses reductions that it does not support for this type.
ElementReduction reduction_of(const Buffers::Name& name, const c10d::ReduceOp& op,
                              at::ScalarType type);

CollectiveRequest request_of(Collective call, at::ScalarType type);

// The tensor's memory. Refuses tensors that are not dense.
Bytes memory_of(const Buffers::Name& name, const at::Tensor& buffer);
// Consecutive blocks, one per rank, of these lengths in elements; of equal length if there are
// none.
std::vector<Bytes> blocks_of(const Buffers::Name& name, const at::Tensor& buffer, std::size_t ranks,
                             const std::vector<std::int64_t>& lengths = {});

}  // namespace atp::pytorch
