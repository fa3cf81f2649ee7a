// Matches each rank's packets to operations, and compares the ranks when all have begun or ended
// one.
#include "atp/core/lateness.h"

#include <algorithm>
#include <bit>
#include <chrono>

namespace atp {
namespace {

std::uint64_t microseconds(Duration duration) {
  const auto count = std::chrono::duration_cast<std::chrono::microseconds>(duration).count();
  return count > 0 ? static_cast<std::uint64_t>(count) : 0;
}

}  // namespace

// Bucket 0 holds durations below a microsecond; bucket b > 0 holds 2^(b−1) to 2^b µs.
void LatenessHistogram::add(Duration late) {
  const auto bucket = static_cast<std::size_t>(std::bit_width(microseconds(late)));
  ++counts_[std::min(bucket, kBuckets - 1)];
  if (++count_ < 2 * kWindow) return;
  count_ = 0;
  for (std::uint32_t& count : counts_) count_ += count /= 2;
}

Duration LatenessHistogram::quantile(double part) const {
  const double wanted = part * count_;
  double below = 0;
  for (std::size_t b = 0; b < kBuckets; ++b) {
    const double in = counts_[b];
    if (in > 0 && below + in >= wanted) {
      // Assume that durations are spread evenly over a bucket.
      const double from = b == 0 ? 0 : static_cast<double>(std::uint64_t{1} << (b - 1));
      const double width = b == 0 ? 1 : from;
      const double us = from + width * std::clamp((wanted - below) / in, 0.0, 1.0);
      return std::chrono::nanoseconds(static_cast<std::int64_t>(us * 1000));
    }
    below += in;
  }
  return {};
}

Lateness::Lateness(std::size_t world_size, std::size_t streams)
    : world_size_(world_size),
      stream_count_(std::min(streams, kMostStreams)),
      of_ranks_(world_size),
      progress_(world_size * stream_count_),
      streams_(stream_count_),
      sorted_(world_size) {
  for (Stream& stream : streams_) {
    for (Open& open : stream.open) {
      open.first.resize(world_size);
      open.last.resize(world_size);
    }
  }
}

Lateness::Open* Lateness::find(Stream& stream, std::uint64_t operation) {
  for (Open& open : stream.open) {
    if (open.in_use && open.operation == operation) return &open;
  }
  return nullptr;
}

Lateness::Open& Lateness::make(Stream& stream, std::uint32_t operation) {
  stream.newest = (stream.newest + 1) % kOpen;
  Open& open = stream.open[stream.newest];
  open.operation = operation;
  open.in_use = true;
  open.is_judged = false;
  open.begun.clear();
  open.ended.clear();
  return open;
}

void Lateness::begin(std::size_t stream, const RankSet& ranks, std::uint64_t sequence,
                     std::uint32_t operation, Instant now, const RankSet& expected) {
  Stream& of = streams_[stream];
  Progress* progress = &progress_[stream * world_size_];
  const Progress before = progress[ranks.lowest()];
  Open* open = find(of, operation);
  if (open == nullptr) open = &make(of, operation);
  Open* ended = before.operation != kNone ? find(of, before.operation) : nullptr;
  if (ended == open) ended = nullptr;
  ranks.for_each([&](Rank rank) {
    Progress& own = progress[rank];
    if (ended != nullptr && own.operation == before.operation && ended->begun.contains(rank)) {
      ended->ended.insert(rank);
      ended->last[rank] = std::max(own.last, before.last);
    }
    own = {.next = sequence + 1, .last = now, .operation = operation};
    if (open->begun.contains(rank)) return;
    open->begun.insert(rank);
    open->first[rank] = now;
  });
  if (!open->is_judged && open->begun.contains(expected)) {
    open->is_judged = true;
    judge(expected, open->first, &RankLateness::first);
  }
  if (ended != nullptr && ended->ended.contains(expected)) {
    judge(expected, ended->last, &RankLateness::last);
    ended->in_use = false;
  }
}

// Compares with the lower median: of two ranks, the earlier one.
void Lateness::judge(const RankSet& ranks, const std::vector<Instant>& times,
                     LatenessHistogram RankLateness::* of) {
  std::size_t count = 0;
  ranks.for_each([&](Rank rank) { sorted_[count++] = times[rank]; });
  if (count < 2) return;
  const auto middle = sorted_.begin() + static_cast<std::ptrdiff_t>((count - 1) / 2);
  std::nth_element(sorted_.begin(), middle, sorted_.begin() + static_cast<std::ptrdiff_t>(count));
  const Instant median = *middle;
  ranks.for_each([&](Rank rank) { (of_ranks_[rank].*of).add(times[rank] - median); });
}

}  // namespace atp
