#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "atp/collective/ring/schedule.h"

// Sums of float32 that are exact and rounded once (docs/protocol.md §5, *Exact*): every rank
// gathers what all have, and adds it up. So much of it at a time as bounds the memory, each in a
// stage of its own.

namespace atp {

class ExactGather {
 public:
  // `tensor`: where this rank's values stand, and where the sums come, divided by `divisor`.
  // `memory`: scratch_bytes() of the tensor.
  ExactGather(std::size_t rank, std::size_t ranks, std::byte* tensor, float divisor, Bytes memory);
  static std::size_t scratch_bytes(std::size_t values, std::size_t ranks);

  // The values from `begin` to `end` shall be summed, too. In rising order, before next().
  void add(std::size_t begin, std::size_t end);

  // Sums what the last stage has gathered. The next stage; nothing if all is summed.
  std::optional<Schedule> next();
  bool has_more() const { return range_ < ranges_.size(); }

 private:
  struct Range {
    std::size_t begin;  // values
    std::size_t end;
    std::size_t length() const { return end - begin; }
  };
  void choose();
  Schedule gather();
  void sum();
  std::uint8_t* row(std::size_t rank) const;

  std::size_t rank_;
  std::size_t ranks_;
  std::byte* tensor_;
  float divisor_;
  Bytes memory_;
  std::vector<Range> ranges_;
  std::size_t range_ = 0;        // the first that is not all gathered
  std::vector<Range> gathered_;  // by the stage under way
  std::size_t count_ = 0;        // values in that
  std::size_t stages_ = 0;
};

}  // namespace atp
