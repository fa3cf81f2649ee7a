#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <span>
#include <vector>

#include "atp/core/worker/worker_api.h"

// The tensors that the ranks of an input sum, and the expected results.

namespace atp::fuzz {

// The kinds of operations of an input's jobs.
inline const std::array<OperationSpec, 8> kOperations{
    OperationSpec{.count = 20},
    OperationSpec{.count = 3, .small = true},
    OperationSpec{.count = 300, .reduction = Reduction::kAverage},
    OperationSpec{.count = 20, .type = DataType::kBFloat16, .format = NumberFormat::kBlocksInt16},
    OperationSpec{.count = 20, .type = DataType::kInt32},
    OperationSpec{.count = 20, .reduction = Reduction::kMax},
    OperationSpec{.count = 300, .format = NumberFormat::kExact},
    OperationSpec{.count = 0},
};

// Rank 0 contributes i mod 8 and rank 1 twice that, which is exact in every type and format.
inline float contribution(std::size_t i, std::size_t rank) {
  return static_cast<float>((i % 8) * (rank + 1));
}

inline float result_of(const OperationSpec& spec, std::size_t i) {
  const float sum = contribution(i, 0) + contribution(i, 1);
  if (spec.reduction == Reduction::kMax) return contribution(i, 1);
  return spec.reduction == Reduction::kAverage ? sum / 2 : sum;
}

class Tensor {
 public:
  Tensor(const OperationSpec& spec, std::size_t rank)
      : spec_(spec),
        bytes_(spec.count * bytes_of(spec.type)),
        layout_(spec.count),
        exponents_(layout_.blocks()) {
    for (std::size_t i = 0; i < spec.count; ++i) put(i, contribution(i, rank));
  }

  bool is_result() const {
    for (std::size_t i = 0; i < spec_.count; ++i) {
      if (get(i) != result_of(spec_, i)) return false;
    }
    return true;
  }

  std::span<std::byte> bytes() { return bytes_; }
  const BlockLayout& layout() const { return layout_; }
  std::span<std::int16_t> exponents() { return exponents_; }

 private:
  void put(std::size_t i, float value) {
    if (spec_.type == DataType::kInt32) {
      const auto integer = static_cast<std::int32_t>(value);
      std::memcpy(&bytes_[4 * i], &integer, sizeof integer);
    } else {
      const std::size_t size = bytes_of(spec_.type);  // a bfloat16 is a float32's upper half
      std::memcpy(&bytes_[size * i], reinterpret_cast<const char*>(&value) + 4 - size, size);
    }
  }
  float get(std::size_t i) const {
    float value = 0;
    const std::size_t size = bytes_of(spec_.type);
    if (spec_.type == DataType::kInt32) {
      std::int32_t integer = 0;
      std::memcpy(&integer, &bytes_[4 * i], sizeof integer);
      return static_cast<float>(integer);
    }
    std::memcpy(reinterpret_cast<char*>(&value) + 4 - size, &bytes_[size * i], size);
    return value;
  }

  OperationSpec spec_;
  std::vector<std::byte> bytes_;
  BlockLayout layout_;
  std::vector<std::int16_t> exponents_;
};

class RankTensors final : public Tensors {
 public:
  std::span<const std::byte> input(OperationId id) override { return all.at(id).bytes(); }
  std::span<std::byte> output(OperationId id) override { return all.at(id).bytes(); }
  const BlockLayout& layout(OperationId id) override { return all.at(id).layout(); }
  std::span<std::int16_t> exponents(OperationId id) override { return all.at(id).exponents(); }

  std::deque<Tensor> all;
};

}  // namespace atp::fuzz
