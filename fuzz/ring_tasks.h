#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <vector>

#include "atp/collective/ring/request.h"

// The operations of the ranks of a ring, and their expected results.

namespace atp::fuzz {

// The kinds of operations of an input's rings.
struct Work {
  RingCollective collective = RingCollective::kAllReduce;
  ElementType type = ElementType::kFloat32;
  std::size_t count = 0;  // values: of an all-reduce, otherwise of one block
  NumberFormat format = NumberFormat::kBlocks;
  Reduction reduction = Reduction::kSum;
  std::vector<std::size_t> segments;
};
inline const std::array<Work, 10> kWorks{
    Work{.count = 20},
    Work{.count = 700},
    Work{.count = 900, .reduction = Reduction::kAverage, .segments = {300, 0, 600}},
    Work{.count = 700, .format = NumberFormat::kBlocksInt16},
    Work{.count = 300, .format = NumberFormat::kExact},
    Work{.type = ElementType::kFloat64, .count = 5},
    Work{
        .collective = RingCollective::kReduceScatter, .count = 9, .reduction = Reduction::kAverage},
    Work{.collective = RingCollective::kAllGather, .type = ElementType::kByte, .count = 7},
    Work{.count = 0},
    Work{.collective = RingCollective::kAllGather, .type = ElementType::kFloat64, .count = 40},
};

// Rank r contributes (i mod 8) · (r + 1) to value i, which is exact in every type and format.
inline double value_of(std::size_t i, std::size_t rank) {
  return static_cast<double>((i % 8) * (rank + 1));
}

// One operation of one rank, and its memory.
class Task {
 public:
  Task(const Work& work, std::size_t rank, std::size_t ranks)
      : work_(work), rank_(rank), ranks_(ranks), size_(bytes_of(work.type)) {
    const bool gathers = work.collective == RingCollective::kAllGather;
    input_.resize(size_ * work.count * (is_all_reduce() || gathers ? 1 : ranks));
    output_.resize(size_ * work.count * (gathers ? ranks : 1));
    for (std::size_t i = 0; i < input_.size() / size_; ++i) put(i, value_of(i, rank));
  }

  RingRequest request() {
    RingRequest request;
    if (is_all_reduce()) {
      request = all_reduce_request(work_.type, input_, ranks_);
    } else if (work_.collective == RingCollective::kReduceScatter) {
      request = reduce_scatter_request(work_.type, input_, output_, ranks_);
    } else {
      request = all_gather_request(work_.type, input_, output_, ranks_);
    }
    request.format = work_.format;
    request.reduction = work_.reduction;
    request.segments = work_.segments;
    return request;
  }

  bool is_right() const {
    const std::vector<std::byte>& result = is_all_reduce() ? input_ : output_;
    for (std::size_t i = 0; i < result.size() / size_; ++i) {
      if (get(result, i) != expected(i)) return false;
    }
    return true;
  }

 private:
  bool is_all_reduce() const { return work_.collective == RingCollective::kAllReduce; }
  double expected(std::size_t i) const {
    if (work_.collective == RingCollective::kAllGather) {
      return value_of(i % work_.count, i / work_.count);
    }
    if (!is_all_reduce()) i += rank_ * work_.count;
    double sum = 0;
    for (std::size_t rank = 0; rank < ranks_; ++rank) sum += value_of(i, rank);
    return work_.reduction == Reduction::kAverage ? rounded(sum / static_cast<double>(ranks_))
                                                  : sum;
  }
  double rounded(double value) const {
    return work_.type == ElementType::kFloat32 ? static_cast<float>(value) : value;
  }
  void put(std::size_t i, double value) {
    const auto narrow = static_cast<float>(value);
    const auto byte = static_cast<std::byte>(value);
    const void* from = size_ == 8 ? static_cast<const void*>(&value) : &narrow;
    std::memcpy(&input_[size_ * i], size_ == 1 ? static_cast<const void*>(&byte) : from, size_);
  }
  double get(const std::vector<std::byte>& from, std::size_t i) const {
    if (size_ == 1) return std::to_integer<int>(from[i]);
    double value = 0;
    float narrow = 0;
    std::memcpy(size_ == 8 ? static_cast<void*>(&value) : &narrow, &from[size_ * i], size_);
    return size_ == 8 ? value : narrow;
  }

  const Work& work_;
  const std::size_t rank_;
  const std::size_t ranks_;
  const std::size_t size_;  // bytes per value
  std::vector<std::byte> input_;
  std::vector<std::byte> output_;
};

}  // namespace atp::fuzz
