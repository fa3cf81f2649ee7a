#pragma once

#include <cstdint>

#include "atp/core/worker/operation_queue.h"
#include "atp/core/worker/worker_api.h"
#include "atp/wire/fixed_point.h"

// What the fragments of an operation carry: how a part of a tensor becomes the values of a
// GRADIENT, and those of a PARAMETER a part of the result (docs/protocol.md §5, *Numbers*). The
// arithmetic is in wire/ and block_codec.h; here stands which of it a fragment takes.

namespace atp {

// What a packet of a fragment must look like; the same at all ranks.
struct FragmentShape {
  std::uint8_t kind = ATP_KIND_SUM_FIXED;
  std::uint16_t value_count = 0;
  bool operator==(const FragmentShape&) const = default;
};

class FragmentValues {
 public:
  // `fixed_scale`: the job's, used by operations of that kind only.
  FragmentValues(std::size_t world_size, double fixed_scale)
      : world_size_(world_size), fixed_scale_(fixed_scale) {}

  // Of a fragment in blocks, when the exponents of all its blocks are agreed. Where one of these is
  // special it travels as floats from the start.
  FragmentShape shape(const Operation& operation, std::uint64_t sequence, Tensors& tensors) const;

  // Writes this rank's contribution. `as_floats`: the server asked for floats, as a sum by the
  // fixed scale did not fit. Magnitude and overflow are of the fixed scale alone.
  Quantized write(const Operation& operation, std::uint64_t sequence, std::uint8_t kind,
                  bool as_floats, Tensors& tensors, std::uint8_t* at) const;

  // Takes the sum of all ranks into the result.
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
