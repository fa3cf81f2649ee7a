// Cuts the ranges to sum into stages, and adds up the rows of each.
#include "atp/collective/peer/exact_gather.h"

#include <algorithm>
#include <array>

#include "atp/collective/peer/plan_builder.h"
#include "atp/wire/block_values.h"
#include "atp/wire/exact_sum.h"

namespace atp {
namespace {

// Bytes of all ranks per stage: enough to be worth a round, few enough to stay in a cache.
constexpr std::size_t kMaxGathered = 256 * 1024;

std::size_t most_of_a_rank(std::size_t ranks) {
  return std::max(small_operation_values(ranks), kMaxGathered / ranks);
}

}  // namespace

ExactGather::ExactGather(std::size_t rank, std::size_t ranks, SpareMemory& spare, std::byte* tensor,
                         float divisor, Bytes memory)
    : rank_(rank),
      ranks_(ranks),
      spare_(spare),
      tensor_(tensor),
      divisor_(divisor),
      memory_(memory) {}

// While a stage still goes out, the next one may come in, so there is room for two. The one after
// that cannot come: its sender must first have received all of this one.
std::size_t ExactGather::scratch_bytes(std::size_t values, std::size_t ranks) {
  const std::size_t most = most_of_a_rank(ranks);
  return sizeof(float) * ranks * (values <= most ? values : 2 * most);
}

void ExactGather::add(std::size_t begin, std::size_t end) {
  if (begin < end) ranges_.push_back({begin, end});
}

std::optional<PeerPlan> ExactGather::next() {
  sum();
  choose();
  if (gathered_.empty()) return std::nullopt;
  return gather();
}

void ExactGather::choose() {
  gathered_.clear();
  count_ = 0;
  while (has_more() && count_ < most_of_a_rank(ranks_)) {
    Range& range = ranges_[range_];
    const std::size_t length = std::min(range.length(), most_of_a_rank(ranks_) - count_);
    gathered_.push_back({range.begin, range.begin + length});
    count_ += length;
    range.begin += length;
    if (range.length() == 0) ++range_;
  }
}

std::uint8_t* ExactGather::row(std::size_t rank) const {
  const std::size_t half = stages_ % 2 == 1 ? 0 : memory_.size() / 2;
  return reinterpret_cast<std::uint8_t*>(memory_.data()) + half + sizeof(float) * count_ * rank;
}

// A stage before it may have had exponents, which went around twice.
std::uint32_t ExactGather::next_part() const {
  return static_cast<std::uint32_t>(2 * ranks_ + stages_ * ranks_);
}

PeerPlan ExactGather::gather() {
  PlanBuilder plan(rank_, ranks_, spare_, next_part());
  ++stages_;
  std::uint8_t* at = row(rank_);
  for (const Range& range : gathered_) {
    write_floats(DataType::kFloat32, tensor_ + sizeof(float) * range.begin, range.length(), at);
    at += sizeof(float) * range.length();
  }
  const auto bytes_of_row = [this](std::size_t rank) {
    return std::as_writable_bytes(std::span(row(rank), sizeof(float) * count_));
  };
  const auto own = plan.given(bytes_of_row(rank_));
  if (ranks_ > PlanBuilder::kDirectRanks) {
    plan.pass_around(own, 0, bytes_of_row);
  } else {
    plan.for_others([&](std::size_t other) {
      plan.send_given(other, own);
      plan.receive_given(other, bytes_of_row(other));
    });
  }
  return plan.take();
}

// Does not overwrite a row, which may still go out.
void ExactGather::sum() {
  if (gathered_.empty()) return;
  std::vector<const std::uint8_t*> rows;
  rows.reserve(ranks_);
  for (std::size_t rank = 0; rank < ranks_; ++rank) rows.push_back(row(rank));
  for (const Range& range : gathered_) {
    std::array<std::uint8_t, sizeof(float) * kBlockValues> sums;
    for (std::size_t at = range.begin; at < range.end; at += kBlockValues) {
      const std::size_t count = std::min(kBlockValues, range.end - at);
      exact_sums(rows, count, sums.data());
      read_floats(sums.data(), count, divisor_, DataType::kFloat32, tensor_ + sizeof(float) * at);
      for (const std::uint8_t*& row : rows) row += sizeof(float) * count;
    }
  }
}

}  // namespace atp
