#include "python/csrc/in_network_group.h"

#include <algorithm>
#include <span>
#include <utility>

namespace atp::pytorch {
namespace {

constexpr Buffers::Name kAllReduce{c10d::OpType::ALLREDUCE, "all_reduce", "atp:all_reduce"};
constexpr Buffers::Name kAllReduceCoalesced{c10d::OpType::ALLREDUCE_COALESCED,
                                            "all_reduce_coalesced", "atp:all_reduce_coalesced"};

bool is_dense_float32(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kFloat && tensor.layout() == at::kStrided;
}

}  // namespace

InNetworkGroup::InNetworkGroup(int rank, int size, std::chrono::milliseconds timeout,
                               c10::intrusive_ptr<c10d::Backend> gloo,
                               std::unique_ptr<Communicator> communicator)
    : ProcessGroupATP(rank, size, timeout, std::move(gloo)),
      communicator_(std::move(communicator)) {}

bool InNetworkGroup::sums(const Tensors& tensors, const c10d::AllreduceOptions& options) const {
  if (communicator_ == nullptr || !is_linear(options.reduceOp)) return false;
  const bool has_values = std::any_of(tensors.begin(), tensors.end(),
                                      [](const at::Tensor& tensor) { return tensor.numel() > 0; });
  return has_values && std::all_of(tensors.begin(), tensors.end(), is_dense_float32);
}

c10::intrusive_ptr<c10d::Work> InNetworkGroup::sum(const Buffers::Name& name,
                                                   const Tensors& tensors,
                                                   const c10d::AllreduceOptions& options) {
  const auto work = begin_work("atp", name, tensors, tensors);
  AllReduceOptions each;
  each.reduction = reduction_of(options.reduceOp, tensors, work->buffers(), getSize());
  std::vector<std::span<float>> parts;
  for (const at::Tensor& tensor : tensors) {
    const at::Tensor buffer = work->buffers().output(tensor);
    if (buffer.numel() == 0) continue;
    parts.emplace_back(static_cast<float*>(buffer.data_ptr()),
                       static_cast<std::size_t>(buffer.numel()));
  }
  each.tag = tag_;
  each.timeout = timeout_of(options.timeout);
  each.on_done = [end_part = expect_parts(work, parts.size())](const Status& status) {
    end_part(status.ok() ? "" : status.error().message);
  };
  for (const std::span<float>& part : parts) communicator_->all_reduce(part, each);
  return work;
}

c10::intrusive_ptr<c10d::Work> InNetworkGroup::allreduce(Tensors& tensors,
                                                         const c10d::AllreduceOptions& options) {
  if (!sums(tensors, options)) return DelegatingBackend::allreduce(tensors, options);
  return sum(kAllReduce, tensors, options);
}

c10::intrusive_ptr<c10d::Work> InNetworkGroup::allreduce_coalesced(
    Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  if (!sums(tensors, options)) return DelegatingBackend::allreduce_coalesced(tensors, options);
  return sum(kAllReduceCoalesced, tensors, options);
}

void InNetworkGroup::leave_transport() {
  // A server that does not acknowledge the leaving ends nothing but its own lease.
  if (communicator_ != nullptr) static_cast<void>(communicator_->shutdown());
}

void InNetworkGroup::abort_transport() {
  if (communicator_ != nullptr) communicator_->abort("the process group was aborted");
}

ProcessGroupATP::Counts InNetworkGroup::counters() const {
  return communicator_ == nullptr ? Counts() : communicator_->counters();
}

std::size_t InNetworkGroup::values_per_fragment() const {
  return communicator_ == nullptr ? 0 : communicator_->values_per_fragment();
}

}  // namespace atp::pytorch
