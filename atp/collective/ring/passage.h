#pragma once

#include <vector>

#include "atp/collective/ring/request.h"

// What one operation makes of the two streams of a rank, the one that goes out to the next rank
// and the one that comes in from the rank before.
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

struct Passage {
  struct Step {
    Arithmetic arithmetic = Arithmetic::kStore;
    const std::byte* local = nullptr;  // what is added
    Bytes to;
  };

  ConstBytes first;         // goes out before anything has come in
  std::vector<Step> steps;  // what comes in; all but the last go out again

  std::size_t bytes_out() const;
  std::size_t bytes_in() const;
};

// How much memory a passage needs besides the caller's.
std::size_t scratch_bytes(const RingRequest& request, std::size_t rank);

// `scratch` has at least that much, and is aligned to the element. Copies this rank's block of an
// all-gather to its place.
Passage make_passage(const RingRequest& request, std::size_t rank, std::size_t ranks,
                     Bytes scratch);

}  // namespace atp
