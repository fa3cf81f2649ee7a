#include "atp/collective/ring/passage.h"

#include <cstring>
#include <numeric>

namespace atp {
namespace {

std::size_t before(std::size_t rank, std::size_t distance, std::size_t ranks) {
  return (rank + ranks - distance % ranks) % ranks;
}

void add_reduce_scatter(const std::vector<ConstBytes>& inputs, const std::vector<Bytes>& outputs,
                        const RingRequest& request, std::size_t rank, Passage& passage) {
  const std::size_t ranks = inputs.size();
  passage.first = inputs[before(rank, 1, ranks)];
  for (std::size_t s = 0; s + 1 < ranks; ++s) {
    const std::size_t block = before(rank, 2 + s, ranks);
    const bool last = block == rank && request.reduction == Reduction::kAverage;
    passage.steps.push_back({.arithmetic = last ? Arithmetic::kAddAndMean : Arithmetic::kAdd,
                             .local = inputs[block].data(),
                             .to = outputs[block]});
  }
}

void add_all_gather(const std::vector<Bytes>& outputs, std::size_t rank, Passage& passage) {
  const std::size_t ranks = outputs.size();
  for (std::size_t s = 0; s + 1 < ranks; ++s) {
    passage.steps.push_back({.to = outputs[before(rank, 1 + s, ranks)]});
  }
}

// Partial sums on their way must not overwrite the caller's input.
std::vector<Bytes> places_of_partial_sums(const RingRequest& request, std::size_t rank,
                                          Bytes scratch) {
  std::vector<Bytes> places;
  for (std::size_t b = 0; b < request.inputs.size(); ++b) {
    const std::size_t bytes = request.inputs[b].size();
    if (b == rank) {
      places.push_back(request.outputs[0]);
    } else if (b == before(rank, 1, request.inputs.size())) {
      places.emplace_back();  // starts here, and never comes in
    } else {
      places.push_back(scratch.first(bytes));
      scratch = scratch.subspan(bytes);
    }
  }
  return places;
}

void copy(ConstBytes from, Bytes to) {
  if (!from.empty() && from.data() != to.data()) std::memmove(to.data(), from.data(), from.size());
}

}  // namespace

std::size_t Passage::bytes_in() const {
  return std::accumulate(steps.begin(), steps.end(), std::size_t{0},
                         [](std::size_t sum, const Step& step) { return sum + step.to.size(); });
}

std::size_t Passage::bytes_out() const {
  return steps.empty() ? 0 : first.size() + bytes_in() - steps.back().to.size();
}

std::size_t scratch_bytes(const RingRequest& request, std::size_t rank) {
  if (request.collective != RingCollective::kReduceScatter) return 0;
  const std::size_t starts_here = before(rank, 1, request.inputs.size());
  std::size_t bytes = 0;
  for (std::size_t b = 0; b < request.inputs.size(); ++b) {
    if (b != rank && b != starts_here) bytes += request.inputs[b].size();
  }
  return bytes;
}

Passage make_passage(const RingRequest& request, std::size_t rank, std::size_t ranks,
                     Bytes scratch) {
  Passage passage;
  if (ranks == 1) {
    copy(request.inputs[0], request.outputs[0]);
    return passage;
  }
  switch (request.collective) {
    case RingCollective::kReduceScatter:
      add_reduce_scatter(request.inputs, places_of_partial_sums(request, rank, scratch), request,
                         rank, passage);
      break;
    case RingCollective::kAllReduce:
      add_reduce_scatter(request.inputs, request.outputs, request, rank, passage);
      add_all_gather(request.outputs, rank, passage);
      break;
    case RingCollective::kAllGather:
      copy(request.inputs[0], request.outputs[rank]);
      passage.first = request.outputs[rank];
      add_all_gather(request.outputs, rank, passage);
      break;
  }
  return passage;
}

}  // namespace atp
