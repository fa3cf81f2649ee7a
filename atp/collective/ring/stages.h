#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "atp/collective/ring/schedule.h"

// The stages of an operation. Most have one. A sum by the rule of numbers (number_stages.h) has
// several, as a rank cannot say what it contributes to one before the last one has come in: their
// order is the same at all ranks, and every stage of an operation goes before the next operation.

namespace atp {

class Stages {
 public:
  virtual ~Stages() = default;
  // Asked for when the operation begins, and then each time that the last stage has come in whole
  // (it may still go out, so what it sends stays as it is). Nothing: the result is there.
  virtual std::optional<Schedule> next() = 0;
  // Whether the stage asked for last has another one after it.
  virtual bool has_more() const = 0;
};

// How much memory the stages need besides the caller's.
std::size_t stages_scratch_bytes(const RingRequest& request, std::size_t rank, std::size_t ranks);

// `scratch` has at least that much, and is aligned to 8 bytes. The request stays where it is.
std::unique_ptr<Stages> make_stages(const RingRequest& request, std::size_t rank, std::size_t ranks,
                                    Bytes scratch);

}  // namespace atp
