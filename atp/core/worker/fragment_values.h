#pragma once

#include <cstdint>

#include "atp/core/worker/operation_queue.h"
#include "atp/core/worker/worker_api.h"
#include "atp/wire/fixed_point.h"

// How a part of a tensor becomes the values of a GRADIENT, and how the values of a PARAMETER become
// a part of the result (docs/inside/protocol §5, *Numbers*). The arithmetic is in wire/ and
// block_codec.h; this decides which of it a fragment uses.

namespace atp {

// The kind and number of a fragment's values; the same on all ranks.
struct FragmentShape {
  std::uint8_t kind = ATP_KIND_SUM_FIXED;
  std::uint16_t value_count = 0;
  bool operator==(const FragmentShape&) const = default;
};

class FragmentValues {
 public:
  // `fixed_scale`: the job's; only operations of that kind use it.
  FragmentValues(std::size_t world_size, double fixed_scale)
      : world_size_(world_size), fixed_scale_(fixed_scale) {}

  // For a fragment in blocks, call it only once the exponents of all its blocks are agreed. If one
  // of its blocks is special, the fragment travels as floats from the start.
  FragmentShape shape(const Operation& operation, std::uint64_t sequence, Tensors& tensors) const;

  // Writes this rank's contribution. `as_floats`: the server asked for floats because a sum of the
  // fixed scale did not fit. Only the fixed scale has a magnitude and an overflow.
  Quantized write(const Operation& operation, std::uint64_t sequence, std::uint8_t kind,
                  bool as_floats, Tensors& tensors, std::uint8_t* at) const;

  // Reads the sum of all ranks into the result.
  void read(const Operation& operation, std::uint64_t sequence, std::uint8_t kind, bool as_floats,
            const std::uint8_t* at, Tensors& tensors) const;

 private:
  float divisor_of(const OperationSpec& spec) const {
    return spec.reduction == Reduction::kAverage ? static_cast<float>(world_size_) : 1.0F;
  }

  std::size_t world_size_;
  double fixed_scale_;
};

}  // namespace atp
