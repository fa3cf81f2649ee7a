#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <string>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <vector>

#include "atp/collective/peer/request.h"
#include "python/csrc/buffers.h"

// Tensors in the words of atp/collective/peer.

namespace atp::pytorch {

// A name for its messages.
std::string type_name(std::uint8_t type);
ElementKind kind_of(at::ScalarType type);

// Refuses what it cannot do of this type.
ElementReduction reduction_of(const Buffers::Name& name, const c10d::ReduceOp& op,
                              at::ScalarType type);

PeerRequest request_of(PeerCall call, at::ScalarType type);

// Its memory. Only dense tensors have it.
Bytes memory_of(const Buffers::Name& name, const at::Tensor& buffer);
// A block for each rank, one after the other, of these lengths in elements; all alike if there are
// none.
std::vector<Bytes> blocks_of(const Buffers::Name& name, const at::Tensor& buffer, std::size_t ranks,
                             const std::vector<std::int64_t>& lengths = {});

// What the request sends while it writes, it sends from a copy, where the caller's tensors overlap.
void keep_apart(PeerRequest& request, Buffers& buffers, std::size_t rank, std::size_t ranks);

}  // namespace atp::pytorch
