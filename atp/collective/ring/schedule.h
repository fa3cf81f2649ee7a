#pragma once

#include <functional>
#include <vector>

#include "atp/collective/ring/request.h"

// What one stage of an operation makes of the two streams of a rank, the one that goes out to the
// next rank and the one that comes in from the rank before.
//
// The whole of a ring algorithm is this: the stream that goes out is a first block, and then
// exactly what became of the stream that came in, block by block, but for the last one. So a byte
// may go out as soon as the byte one block before it in the stream has come in and been added, and
// sums and transfers in both directions overlap without any step having to end.
//
// Rank r of N receives, of a reduce-scatter, the blocks r-2, r-3, ... r (mod N), adding its own
// values to each, and of an all-gather the blocks r-1, r-2, ... r+1. An all-reduce is one after the
// other. The sum of block b is therefore (((x[b+1] + x[b+2]) + ...) + x[b]) wherever it is read:
// added in this order by one rank after the other, and given to all by rank b. The same bits
// everywhere and in every run.

namespace atp {

struct Schedule {
  // Makes bytes `offset` … of a step's memory of those that came in for them, whole elements.
  using Take = std::function<void(std::size_t offset, ConstBytes incoming)>;
  struct Step {
    Bytes to;   // goes out again from here
    Take take;  // empty: what comes in is stored as it is
  };

  ConstBytes first;         // goes out before anything has come in
  std::vector<Step> steps;  // what comes in; all but the last go out again
  std::size_t element = 1;  // bytes of what is taken together, at most 8

  std::size_t bytes_out() const;
  std::size_t bytes_in() const;
};

// The orders of blocks in which all algorithms have their steps: `step` says what is done with one.
using StepOf = std::function<Schedule::Step(std::size_t block)>;
void append_reduce_scatter(std::size_t rank, std::size_t ranks, const StepOf& step,
                           Schedule& schedule);
void append_all_gather(std::size_t rank, std::size_t ranks, const StepOf& step, Schedule& schedule);
// The block that goes out first in a reduce-scatter.
std::size_t first_block(std::size_t rank, std::size_t ranks);

// How much memory the schedule below needs besides the caller's.
std::size_t scratch_bytes(const RingRequest& request, std::size_t rank);

// The schedule of a request that takes one stage. `scratch` has at least that much, and is aligned
// to the element. Copies this rank's block of an all-gather to its place.
Schedule make_schedule(const RingRequest& request, std::size_t rank, std::size_t ranks,
                       Bytes scratch);

}  // namespace atp
