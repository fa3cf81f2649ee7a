#pragma once

#include <functional>
#include <vector>

#include "atp/collective/ring/request.h"

// How one stage of an operation uses the two streams of a rank: the outgoing one to the next rank
// and the incoming one from the previous rank.
//
// A ring algorithm is just this: the outgoing stream is a first block, followed by the incoming
// stream after processing, block by block, without its last block. So a byte may go out as soon as
// the byte one block before it has come in and been added, and sums and transfers in both
// directions overlap without waiting for any step to end.
//
// In a reduce-scatter, rank r of N receives the blocks r-2, r-3, ... r (mod N) and adds its own
// values to each; in an all-gather it receives the blocks r-1, r-2, ... r+1. An all-reduce is the
// first followed by the second. The sum of block b is therefore always (((x[b+1] + x[b+2]) + ...) +
// x[b]): one rank after the other adds in this order, and rank b passes the result to all. The bits
// are the same everywhere and in every run.

namespace atp {

struct Schedule {
  // Given incoming bytes, computes those of the step's memory from `offset` on, in whole elements.
  using Take = std::function<void(std::size_t offset, ConstBytes incoming)>;
  struct Step {
    Bytes to;   // goes out again from here
    Take take;  // empty: incoming bytes are stored unchanged
  };

  ConstBytes first;         // goes out before anything has come in
  std::vector<Step> steps;  // incoming blocks; all but the last go out again
  std::size_t element = 1;  // bytes per element, at most 8

  std::size_t bytes_out() const;
  std::size_t bytes_in() const;
};

// The orders of blocks that all algorithms use; `step` gives the step for a block.
using StepOf = std::function<Schedule::Step(std::size_t block)>;
void append_reduce_scatter(std::size_t rank, std::size_t ranks, const StepOf& step,
                           Schedule& schedule);
void append_all_gather(std::size_t rank, std::size_t ranks, const StepOf& step, Schedule& schedule);
// The block that goes out first in a reduce-scatter.
std::size_t first_block(std::size_t rank, std::size_t ranks);

// How much memory the schedule below needs besides the caller's.
std::size_t scratch_bytes(const RingRequest& request, std::size_t rank);

// The schedule of a request with one stage. `scratch` has at least that many bytes and is aligned
// to the element. For an all-gather, copies this rank's block to its place.
Schedule make_schedule(const RingRequest& request, std::size_t rank, std::size_t ranks,
                       Bytes scratch);

}  // namespace atp
