#pragma once

#include <ATen/ATen.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "python/csrc/buffers.h"

// Checks of the tensors of collectives that this backend carries out itself.

namespace atp::pytorch {

inline bool is_dense(const at::Tensor& tensor) { return tensor.layout() == at::kStrided; }

inline bool all(at::TensorList tensors, bool (*property)(const at::Tensor&)) {
  return !tensors.empty() && std::all_of(tensors.begin(), tensors.end(), property);
}

inline void check_type(const Buffers::Name& name, const at::Tensor& input,
                       const at::Tensor& output) {
  TORCH_CHECK_TYPE(input.scalar_type() == output.scalar_type(), name.operation,
                   ": input and output must have the same type, and they are ", input.scalar_type(),
                   " and ", output.scalar_type());
}

inline void check_values(const Buffers::Name& name, const at::Tensor& whole,
                         const at::Tensor& block, std::int64_t ranks) {
  check_type(name, whole, block);
  TORCH_CHECK_VALUE(whole.numel() == block.numel() * ranks, name.operation, ": expected ",
                    block.numel() * ranks, " values, ", ranks, " times the ", block.numel(),
                    " of a rank, but found ", whole.numel());
}

// `each`: the thing that needs one tensor each.
inline void check_count(const Buffers::Name& name, const char* each, std::size_t expected,
                        std::size_t found) {
  TORCH_CHECK_VALUE(found == expected, name.operation, ": expected ", expected,
                    " tensors, one for each ", each, ", but found ", found);
}

}  // namespace atp::pytorch
