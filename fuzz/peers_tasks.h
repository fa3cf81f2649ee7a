#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "atp/collective/base/collective_request.h"

// The operations of the ranks of a group, and their expected results.

namespace atp::fuzz {

// The kinds of operations of an input's groups. No two could be taken for each other: ranks that
// call different ones must notice it.
struct Work {
  Collective call = Collective::kAllReduce;
  std::size_t count = 0;  // values of a block
  ElementKind kind = ElementKind::kFloat32;
  ElementReduction reduction = ElementReduction::kNone;
  std::optional<NumberFormat> format;
  std::vector<std::size_t> segments;
  bool around_ring = false;
  bool is_uneven = false;    // blocks have different lengths
  bool from_any = false;     // the receiver of a transfer does not name the sender
  bool has_special = false;  // one value is infinite
};

constexpr auto kSum = ElementReduction::kSum;
constexpr auto kAverage = ElementReduction::kAverage;
inline const std::array<Work, 32> kWorks{
    // By the rule of numbers: gathered exactly, in stages of integers, and with special blocks.
    Work{.count = 20, .reduction = kSum, .format = NumberFormat::kBlocks},
    Work{.count = 3000, .reduction = kSum, .format = NumberFormat::kBlocks},
    Work{.count = 2500,
         .reduction = kAverage,
         .format = NumberFormat::kBlocks,
         .segments = {1300, 0, 1200}},
    Work{.count = 2900, .reduction = kSum, .format = NumberFormat::kBlocks, .has_special = true},
    Work{.count = 40'000, .reduction = kSum, .format = NumberFormat::kBlocks},
    Work{.count = 3100, .reduction = kSum, .format = NumberFormat::kBlocksInt16},
    Work{.count = 60'000, .reduction = kAverage, .format = NumberFormat::kBlocksInt16},
    Work{.count = 3300, .reduction = kSum, .format = NumberFormat::kExact},
    Work{.count = 66'000, .reduction = kSum, .format = NumberFormat::kExact},
    Work{.count = 0, .reduction = kSum, .format = NumberFormat::kBlocks},
    // Added in an order: directly, or around.
    Work{.count = 700, .kind = ElementKind::kFloat64, .reduction = kAverage},
    Work{.count = 9000, .kind = ElementKind::kInt64, .reduction = kSum},
    Work{.count = 35'000, .kind = ElementKind::kInt64, .reduction = kSum},
    Work{.count = 90, .kind = ElementKind::kFloat64, .reduction = kSum, .around_ring = true},
    Work{.count = 30'000, .kind = ElementKind::kFloat64, .reduction = kSum, .around_ring = true},
    Work{.call = Collective::kReduceScatter, .count = 9, .reduction = kAverage},
    Work{.call = Collective::kReduceScatter,
         .count = 20'000,
         .reduction = kSum,
         .around_ring = true},
    Work{.call = Collective::kBroadcast, .count = 70'001, .kind = ElementKind::kByte},
    Work{.call = Collective::kBroadcast, .count = 132'000, .kind = ElementKind::kByte},
    Work{.call = Collective::kBroadcast, .count = 3},
    Work{.call = Collective::kReduce, .count = 50, .reduction = kSum},
    Work{.call = Collective::kReduce, .count = 40'000, .reduction = kSum},
    Work{.call = Collective::kGather, .count = 100},
    Work{.call = Collective::kScatter, .count = 17'000},
    Work{.call = Collective::kAllGather, .count = 7, .kind = ElementKind::kByte},
    Work{.call = Collective::kAllGather, .count = 20'000},
    Work{.call = Collective::kAllToAll, .count = 40, .is_uneven = true},
    Work{.call = Collective::kAllToAll, .count = 530'000, .kind = ElementKind::kByte},
    Work{.call = Collective::kBarrier},
    Work{.call = Collective::kMonitoredBarrier},
    Work{.call = Collective::kSend, .count = 30, .from_any = true},
    Work{.call = Collective::kSend, .count = 20'000},
};

inline std::size_t bytes_of(const Work& work) { return work.count * atp::bytes_of(work.kind); }

// One operation of one rank, and its memory. `number` is the same on all ranks.
class Task {
 public:
  Task(const Work& work, std::size_t number, std::size_t rank, std::size_t ranks)
      : work_(work),
        number_(number),
        rank_(rank),
        ranks_(ranks),
        root_(number % ranks),
        to_((root_ + 1 + number / ranks % (ranks - 1)) % ranks),
        size_(atp::bytes_of(work.kind)) {}

  // False: a transfer between others.
  bool concerns_rank() const {
    return work_.call != Collective::kSend || is_sender() || is_receiver();
  }

  CollectiveRequest request() {
    CollectiveRequest request{.call = is_receiver() ? Collective::kReceive : work_.call,
                              .kind = work_.kind,
                              .reduction = work_.reduction,
                              .root = root_,
                              .tag = static_cast<std::uint32_t>(number_),
                              .type = static_cast<std::uint8_t>(work_.kind),
                              .around_ring = work_.around_ring,
                              .format = work_.format,
                              .segments = work_.segments,
                              .number = number_};
    if (is_sender()) request.root = to_;
    if (is_receiver() && work_.from_any) request.root = kAnyRank;
    for (std::size_t b = 0; b < inputs(); ++b) {
      blocks_.emplace_back(size_ * length(rank_, inputs() > 1 ? b : rank_));
      fill(blocks_.back(), b);
      request.inputs.push_back(blocks_.back());
    }
    for (std::size_t b = 0; b < outputs(); ++b) {
      blocks_.emplace_back(size_ * length(outputs() > 1 ? b : rank_, rank_));
      if (is_in_place()) fill(blocks_.back(), 0);
      request.outputs.push_back(blocks_.back());
    }
    return request;
  }

  bool is_right() const {
    return with_type([this]<class T>(T) {
      for (std::size_t b = 0; b < outputs(); ++b) {
        const std::vector<std::byte>& block = blocks_[inputs() + b];
        const auto* values = reinterpret_cast<const T*>(block.data());
        for (std::size_t i = 0; i < block.size() / sizeof(T); ++i) {
          if (values[i] != static_cast<T>(expected(b, i))) return false;
        }
      }
      return true;
    });
  }

 private:
  // Calls act(T()) with the type of the values.
  template <class Act>
  bool with_type(const Act& act) const {
    switch (work_.kind) {
      case ElementKind::kByte: return act(std::uint8_t());
      case ElementKind::kInt64: return act(std::int64_t());
      case ElementKind::kFloat64: return act(double());
      default: return act(float());
    }
  }

  bool is_sender() const { return work_.call == Collective::kSend && rank_ == root_; }
  bool is_receiver() const { return work_.call == Collective::kSend && rank_ == to_; }
  bool is_in_place() const {
    return work_.call == Collective::kAllReduce ||
           (work_.call == Collective::kBroadcast && rank_ == root_);
  }
  std::size_t inputs() const {
    switch (work_.call) {
      case Collective::kReduce:
      case Collective::kGather:
      case Collective::kAllGather: return 1;
      case Collective::kScatter: return rank_ == root_ ? ranks_ : 0;
      case Collective::kReduceScatter:
      case Collective::kAllToAll: return ranks_;
      case Collective::kSend: return is_sender() ? 1 : 0;
      default: return 0;
    }
  }
  std::size_t outputs() const {
    switch (work_.call) {
      case Collective::kBroadcast:
      case Collective::kScatter:
      case Collective::kReduceScatter:
      case Collective::kAllReduce: return 1;
      case Collective::kReduce: return rank_ == root_ ? 1 : 0;
      case Collective::kGather: return rank_ == root_ ? ranks_ : 0;
      case Collective::kAllGather:
      case Collective::kAllToAll: return ranks_;
      case Collective::kSend: return is_receiver() ? 1 : 0;
      default: return 0;
    }
  }
  std::size_t length(std::size_t from, std::size_t to) const {
    return work_.is_uneven ? work_.count * ((from + to) % 3) / 2 : work_.count;
  }

  // What a rank contributes to value i of block b: exact in every type and format.
  double value(std::size_t rank, std::size_t b, std::size_t i) const {
    if (work_.has_special && i == 5 && rank == 0) return std::numeric_limits<double>::infinity();
    return static_cast<double>((i + 3 * b + number_) % 8 * (rank + 1));
  }
  double sum(std::size_t b, std::size_t i) const {
    double sum = 0;
    for (std::size_t rank = 0; rank < ranks_; ++rank) sum += value(rank, b, i);
    return work_.reduction == kAverage ? sum / static_cast<double>(ranks_) : sum;
  }
  double expected(std::size_t b, std::size_t i) const {
    switch (work_.call) {
      case Collective::kGather:
      case Collective::kAllGather: return value(b, 0, i);
      case Collective::kScatter: return value(root_, rank_, i);
      case Collective::kReduceScatter: return sum(rank_, i);
      case Collective::kAllToAll: return value(b, rank_, i);
      case Collective::kReduce:
      case Collective::kAllReduce: return sum(0, i);
      default: return value(root_, 0, i);
    }
  }

  void fill(std::vector<std::byte>& block, std::size_t b) const {
    with_type([&]<class T>(T) {
      auto* values = reinterpret_cast<T*>(block.data());
      for (std::size_t i = 0; i < block.size() / sizeof(T); ++i) {
        values[i] = static_cast<T>(value(rank_, b, i));
      }
      return true;
    });
  }

  const Work& work_;
  const std::size_t number_;
  const std::size_t rank_;
  const std::size_t ranks_;
  const std::size_t root_;  // or a transfer's sender
  const std::size_t to_;    // a transfer's receiver
  const std::size_t size_;  // bytes per value
  std::vector<std::vector<std::byte>> blocks_;
};

}  // namespace atp::fuzz
