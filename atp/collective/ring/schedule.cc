// The schedules of reduce-scatter, all-gather and all-reduce, and their scratch memory.
#include "atp/collective/ring/schedule.h"

#include <cstring>
#include <numeric>

#include "atp/base/check.h"

namespace atp {
namespace {

std::size_t before(std::size_t rank, std::size_t distance, std::size_t ranks) {
  return (rank + ranks - distance % ranks) % ranks;
}

template <class T>
void add_values(std::size_t divisor, ConstBytes incoming, const std::byte* local, std::byte* to) {
  const std::size_t count = incoming.size() / sizeof(T);
  const auto* theirs = reinterpret_cast<const T*>(incoming.data());
  const auto* mine = reinterpret_cast<const T*>(local);
  auto* sum = reinterpret_cast<T*>(to);
  for (std::size_t i = 0; i < count; ++i) sum[i] = theirs[i] + mine[i];
  if (divisor == 1) return;
  for (std::size_t i = 0; i < count; ++i) sum[i] /= static_cast<T>(divisor);
}

// to[i] = (incoming[i] + local[i]) / divisor; `to` may be `local`. All are aligned to the element.
void add(ElementType type, std::size_t divisor, ConstBytes incoming, const std::byte* local,
         std::byte* to) {
  ATP_CHECK(type != ElementType::kByte);
  type == ElementType::kFloat32 ? add_values<float>(divisor, incoming, local, to)
                                : add_values<double>(divisor, incoming, local, to);
}

// Adds this rank's floats to what comes in, and divides after the last addition.
void append_float_sums(const RingRequest& request, const std::vector<Bytes>& places,
                       std::size_t rank, Schedule& schedule) {
  const std::size_t ranks = request.inputs.size();
  schedule.first = request.inputs[first_block(rank, ranks)];
  schedule.element = bytes_of(request.type);
  append_reduce_scatter(
      rank, ranks,
      [&](std::size_t block) -> Schedule::Step {
        const bool divides = block == rank && request.reduction == Reduction::kAverage;
        return {.to = places[block],
                .take = [type = request.type, divisor = divides ? ranks : 1,
                         local = request.inputs[block].data(),
                         to = places[block].data()](std::size_t offset, ConstBytes incoming) {
                  add(type, divisor, incoming, local + offset, to + offset);
                }};
      },
      schedule);
}

void append_gathering(const std::vector<Bytes>& outputs, std::size_t rank, Schedule& schedule) {
  append_all_gather(
      rank, outputs.size(), [&](std::size_t block) { return Schedule::Step{.to = outputs[block]}; },
      schedule);
}

// Where partial sums are kept, since they must not overwrite the caller's input.
std::vector<Bytes> places_of_partial_sums(const RingRequest& request, std::size_t rank,
                                          Bytes scratch) {
  std::vector<Bytes> places;
  for (std::size_t b = 0; b < request.inputs.size(); ++b) {
    const std::size_t bytes = request.inputs[b].size();
    if (b == rank) {
      places.push_back(request.outputs[0]);
    } else if (b == first_block(rank, request.inputs.size())) {
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

std::size_t Schedule::bytes_in() const {
  return std::accumulate(steps.begin(), steps.end(), std::size_t{0},
                         [](std::size_t sum, const Step& step) { return sum + step.to.size(); });
}

std::size_t Schedule::bytes_out() const {
  return steps.empty() ? 0 : first.size() + bytes_in() - steps.back().to.size();
}

void append_reduce_scatter(std::size_t rank, std::size_t ranks, const StepOf& step,
                           Schedule& schedule) {
  for (std::size_t s = 0; s + 1 < ranks; ++s) {
    schedule.steps.push_back(step(before(rank, 2 + s, ranks)));
  }
}

void append_all_gather(std::size_t rank, std::size_t ranks, const StepOf& step,
                       Schedule& schedule) {
  for (std::size_t s = 0; s + 1 < ranks; ++s) {
    schedule.steps.push_back(step(before(rank, 1 + s, ranks)));
  }
}

std::size_t first_block(std::size_t rank, std::size_t ranks) { return before(rank, 1, ranks); }

std::size_t scratch_bytes(const RingRequest& request, std::size_t rank) {
  if (request.collective != RingCollective::kReduceScatter) return 0;
  const std::size_t starts_here = first_block(rank, request.inputs.size());
  std::size_t bytes = 0;
  for (std::size_t b = 0; b < request.inputs.size(); ++b) {
    if (b != rank && b != starts_here) bytes += request.inputs[b].size();
  }
  return bytes;
}

Schedule make_schedule(const RingRequest& request, std::size_t rank, std::size_t ranks,
                       Bytes scratch) {
  Schedule schedule;
  if (ranks == 1) {
    copy(request.inputs[0], request.outputs[0]);
    return schedule;
  }
  switch (request.collective) {
    case RingCollective::kReduceScatter:
      append_float_sums(request, places_of_partial_sums(request, rank, scratch), rank, schedule);
      break;
    case RingCollective::kAllReduce:
      append_float_sums(request, request.outputs, rank, schedule);
      append_gathering(request.outputs, rank, schedule);
      break;
    case RingCollective::kAllGather:
      copy(request.inputs[0], request.outputs[rank]);
      schedule.first = request.outputs[rank];
      append_gathering(request.outputs, rank, schedule);
      break;
  }
  return schedule;
}

}  // namespace atp
