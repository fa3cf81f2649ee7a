#include "python/csrc/sparse_sum.h"

#include <ATen/core/LegacyTypeDispatch.h>

#include <algorithm>
#include <utility>

#include "python/csrc/peer_requests.h"

// Gathers the heads first, and from them the sizes of the indices and values to gather next.

namespace atp::pytorch {
namespace {

using NoAutograd = at::AutoDispatchBelowADInplaceOrView;

constexpr Buffers::Name kName{c10d::OpType::ALLREDUCE, "all_reduce"};

at::Tensor coalesced(const at::Tensor& tensor) {
  const NoAutograd guard;
  return tensor.coalesce();
}

std::int64_t head_value(const at::Tensor& head, std::size_t index) {
  return static_cast<const std::int64_t*>(head.const_data_ptr())[index];
}

}  // namespace

SparseSum::SparseSum(Peers& peers, const at::Tensor& tensor, std::chrono::milliseconds timeout)
    : peers_(peers), timeout_(timeout), first_number_(peers.reserve(3)), own_(coalesced(tensor)) {
  const NoAutograd guard;
  own_indices_ = on_cpu(own_._indices().contiguous());
  own_values_ = on_cpu(own_._values().contiguous());
  own_head_ = at::zeros({static_cast<std::int64_t>(kHead)}, at::kLong);
  auto* head = static_cast<std::int64_t*>(own_head_.mutable_data_ptr());
  head[0] = own_values_.size(0);
  head[1] = own_.sparse_dim();
  head[2] = own_.dim();
  std::copy(own_.sizes().begin(), own_.sizes().end(), head + 3);
}

std::shared_ptr<SparseSum> SparseSum::of(Peers& peers, const at::Tensor& tensor,
                                         std::chrono::milliseconds timeout) {
  TORCH_CHECK_TYPE(tensor.layout() == at::kSparse,
                   "all_reduce: atp sums sparse tensors only in the layout torch.sparse_coo, and "
                   "this one's is ",
                   tensor.layout(), "; convert it with .to_sparse_coo()");
  TORCH_CHECK_VALUE(tensor.dim() + 3 <= static_cast<std::int64_t>(kHead),
                    "all_reduce: expected a sparse tensor of up to ", kHead - 3,
                    " dimensions, and this one has ", tensor.dim());
  return std::shared_ptr<SparseSum>(new SparseSum(peers, tensor, timeout));
}

void SparseSum::gather(const at::Tensor& own, const std::vector<at::Tensor>& all,
                       std::uint64_t number, std::function<void(const Status&)> on_done) {
  CollectiveRequest request = request_of(Collective::kAllGather, own.scalar_type());
  request.inputs = {memory_of(kName, own)};
  for (const at::Tensor& each : all) request.outputs.push_back(memory_of(kName, each));
  request.number = number;
  request.timeout = timeout_;
  request.spent = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::steady_clock::now() - begun_);
  request.on_done = std::move(on_done);
  peers_.submit(std::move(request));
}

void SparseSum::begin(std::function<void(const std::string&)> end) {
  end_ = std::move(end);
  for (std::size_t rank = 0; rank < peers_.world_size(); ++rank) {
    heads_.push_back(at::zeros_like(own_head_));
  }
  gather(own_head_, heads_, first_number_, [self = shared_from_this()](const Status& status) {
    if (!status.ok()) self->error_ = status.error().message;
    if (self->error_.empty()) self->error_ = self->mismatch();
    self->gather_content();
  });
}

std::string SparseSum::mismatch() const {
  for (std::size_t rank = 0; rank < heads_.size(); ++rank) {
    for (std::size_t i = 1; i < kHead; ++i) {
      if (head_value(heads_[rank], i) == head_value(heads_.front(), i)) continue;
      return "all_reduce of sparse tensors: the tensor of rank " + std::to_string(rank) +
             " of the group differs in shape from rank 0's; all must have the same shape";
    }
  }
  return {};
}

// If there is nothing to gather, every rank still uses up the numbers.
void SparseSum::gather_content() {
  for (const at::Tensor& head : heads_) {
    const std::int64_t count = error_.empty() ? head_value(head, 0) : 0;
    std::vector<std::int64_t> shape = own_values_.sizes().vec();
    shape.front() = count;
    indices_.push_back(at::empty({own_indices_.size(0), count}, own_indices_.options()));
    values_.push_back(at::empty(shape, own_values_.options()));
  }
  const auto end = [self = shared_from_this()](const Status& status) { self->end_part(status); };
  const bool has_content = error_.empty();
  const std::size_t own = peers_.rank();
  gather(has_content ? own_indices_ : indices_[own], indices_, first_number_ + 1, end);
  gather(has_content ? own_values_ : values_[own], values_, first_number_ + 2, end);
}

void SparseSum::end_part(const Status& status) {
  if (!status.ok() && error_.empty()) error_ = status.error().message;
  // Releases the work, which keeps this object alive.
  if (--parts_left_ == 0) std::exchange(end_, nullptr)(error_);
}

at::Tensor SparseSum::result() const {
  const NoAutograd guard;
  return at::_sparse_coo_tensor_unsafe(at::cat(indices_, 1), at::cat(values_, 0), own_.sizes(),
                                       own_values_.options().layout(at::kSparse))
      .coalesce();
}

}  // namespace atp::pytorch
