#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "atp/collective/ring/schedule.h"

// The stages of an operation. Most have one. A sum by the rule of numbers (number_stages.h) has
// several, because a rank cannot compute its contribution to one before the previous one has come
// in. Their order is the same on all ranks, and every stage of an operation precedes the next
// operation.

namespace atp {

class Stages {
 public:
  virtual ~Stages() = default;
  // Called when the operation begins, and then each time the last stage has come in completely (it
  // may still go out, so the data that it sends must not change). Nothing: the result is complete.
  virtual std::optional<Schedule> next() = 0;
  // Whether another stage follows the last one returned.
  virtual bool has_more() const = 0;
};

// How much memory the stages need besides the caller's.
std::size_t stages_scratch_bytes(const RingRequest& request, std::size_t rank, std::size_t ranks);

// `scratch` has at least that many bytes and is aligned to 8 bytes. The request must not move.
std::unique_ptr<Stages> make_stages(const RingRequest& request, std::size_t rank, std::size_t ranks,
                                    Bytes scratch);

}  // namespace atp
