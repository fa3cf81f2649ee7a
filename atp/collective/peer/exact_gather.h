#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "atp/collective/peer/plan.h"

// Sums of float32 that are exact and rounded once (docs/inside/protocol §5, *Exact*): every rank
// gathers the values of all and adds them up. It does so in stages, which bounds the memory.

namespace atp {

class ExactGather {
 public:
  // `tensor`: this rank's values, which are replaced by the sums, divided by `divisor`. `memory`:
  // scratch_bytes() of the tensor.
  ExactGather(std::size_t rank, std::size_t ranks, SpareMemory& spare, std::byte* tensor,
              float divisor, Bytes memory);
  static std::size_t scratch_bytes(std::size_t values, std::size_t ranks);

  // Adds the range from `begin` to `end` to what is summed. Call it in rising order, before next().
  void add(std::size_t begin, std::size_t end);

  // Sums what the last stage has gathered. Returns the next stage, or nothing if everything is
  // summed.
  std::optional<PeerPlan> next();
  // The number of the first message of whatever follows the stages so far.
  std::uint32_t next_part() const;

 private:
  struct Range {
    std::size_t begin;  // values
    std::size_t end;
    std::size_t length() const { return end - begin; }
  };
  void choose();
  bool has_more() const { return range_ < ranges_.size(); }
  PeerPlan gather();
  void sum();
  std::uint8_t* row(std::size_t rank) const;

  std::size_t rank_;
  std::size_t ranks_;
  SpareMemory& spare_;
  std::byte* tensor_;
  float divisor_;
  Bytes memory_;
  std::vector<Range> ranges_;
  std::size_t range_ = 0;        // the first that is not gathered completely
  std::vector<Range> gathered_;  // by the current stage
  std::size_t count_ = 0;        // values in the current stage
  std::size_t stages_ = 0;
};

}  // namespace atp
