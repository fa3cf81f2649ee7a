#pragma once

#include <ATen/ATen.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "atp/collective/peer/peers.h"

// The sum of sparse tensors, which have as many values as each rank likes: all ranks gather how
// many there are, then the places and the values of all, and coalesce them in the order of ranks.

namespace atp::pytorch {

class SparseSum : public std::enable_shared_from_this<SparseSum> {
 public:
  // `tensor`: a COO tensor.
  static std::shared_ptr<SparseSum> of(Peers& peers, const at::Tensor& tensor,
                                       std::chrono::milliseconds timeout);
  // `end`: called once with an error, or nothing, on any thread.
  void begin(std::function<void(const std::string&)> end);
  // After a good end. Not on the thread of the peers, as it takes its time.
  at::Tensor result() const;

 private:
  // How many values, how many sparse dimensions, how many in all, and their sizes.
  static constexpr std::size_t kHead = 16;
  using Head = std::array<std::int64_t, kHead>;

  SparseSum(Peers& peers, const at::Tensor& tensor, std::chrono::milliseconds timeout);
  void gather_content();
  void gather(const at::Tensor& own, const std::vector<at::Tensor>& all, std::uint64_t number,
              std::function<void(const Status&)> on_done);
  void end_part(const Status& status);
  std::string mismatch() const;

  Peers& peers_;
  const std::chrono::milliseconds timeout_;
  const std::uint64_t first_number_;  // of three
  std::function<void(const std::string&)> end_;
  const at::Tensor own_;  // coalesced
  at::Tensor own_indices_;
  at::Tensor own_values_;
  at::Tensor own_head_;
  std::vector<at::Tensor> heads_;  // by rank
  std::vector<at::Tensor> indices_;
  std::vector<at::Tensor> values_;
  int parts_left_ = 2;  // on the thread of the peers alone
  std::string error_;
};

}  // namespace atp::pytorch
