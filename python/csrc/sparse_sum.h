#pragma once

#include <ATen/ATen.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "atp/collective/peer/peers.h"

// The sum of sparse tensors, which may have a different number of values on each rank: all ranks
// gather the numbers, then the indices and values of all, and coalesce them in the order of ranks.

namespace atp::pytorch {

class SparseSum : public std::enable_shared_from_this<SparseSum> {
 public:
  // `tensor`: a COO tensor.
  static std::shared_ptr<SparseSum> of(Peers& peers, const at::Tensor& tensor,
                                       std::chrono::milliseconds timeout);
  // `end`: called once with an error, or nothing, on any thread.
  void begin(std::function<void(const std::string&)> end);
  // After success. Not to be called on the peers' thread, as it is slow.
  at::Tensor result() const;

 private:
  // The number of values, of sparse dimensions and of all dimensions, and the dimensions' sizes.
  static constexpr std::size_t kHead = 16;
  using Head = std::array<std::int64_t, kHead>;

  SparseSum(Peers& peers, const at::Tensor& tensor, std::chrono::milliseconds timeout);
  void gather_content();
  void gather(const at::Tensor& own, const std::vector<at::Tensor>& all, std::uint64_t number,
              std::function<void(const Status&)> on_done);
  void end_part(const Status& status);
  std::string mismatch() const;

  Peers& peers_;
  const std::chrono::milliseconds timeout_;  // of both steps together
  const std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  const std::uint64_t first_number_;  // the first of three
  std::function<void(const std::string&)> end_;
  const at::Tensor own_;  // coalesced
  at::Tensor own_indices_;
  at::Tensor own_values_;
  at::Tensor own_head_;
  std::vector<at::Tensor> heads_;  // by rank
  std::vector<at::Tensor> indices_;
  std::vector<at::Tensor> values_;
  int parts_left_ = 2;  // used on the peers' thread only
  std::string error_;
};

}  // namespace atp::pytorch
