#include "python/csrc/delegating_backend.h"

#include <utility>

namespace atp::pytorch {
namespace {

// Gloo's own answer to a tensor elsewhere is a missing device or a crash, so it is given here.
void check_device(const char* operation, at::TensorList tensors) {
  for (const at::Tensor& tensor : tensors) {
    TORCH_CHECK_VALUE(tensor.device().is_cpu(), operation,
                      ": atp sums CPU tensors, and this one is on ", tensor.device().str(),
                      "; move it with .cpu(), or use nccl for tensors on a GPU");
  }
}

at::TensorList first_of(const DelegatingBackend::TensorLists& lists) {
  return lists.empty() ? at::TensorList() : at::TensorList(lists.front());
}

}  // namespace

DelegatingBackend::DelegatingBackend(int rank, int size, c10::intrusive_ptr<c10d::Backend> inner)
    : Backend(rank, size), inner_(std::move(inner)) {}

std::uint64_t DelegatingBackend::begin(const char* path, const char* operation,
                                       at::TensorList tensors) {
  check_device(operation, tensors);
  traffic_.add(path, operation, tensors);
  return ++sequence_;
}

void DelegatingBackend::begin_transfer(const char* operation, at::TensorList tensors) {
  check_device(operation, tensors);
  traffic_.add("gloo", operation, tensors);
}

std::uint64_t DelegatingBackend::delegate(const char* operation, at::TensorList tensors) {
  return begin("gloo", operation, tensors);
}

DelegatingBackend::WorkPtr DelegatingBackend::broadcast(Tensors& tensors,
                                                        const c10d::BroadcastOptions& options) {
  delegate("broadcast", tensors);
  return inner_->broadcast(tensors, options);
}

DelegatingBackend::WorkPtr DelegatingBackend::allreduce(Tensors& tensors,
                                                        const c10d::AllreduceOptions& options) {
  delegate("all_reduce", tensors);
  return inner_->allreduce(tensors, options);
}

DelegatingBackend::WorkPtr DelegatingBackend::allreduce_sparse(
    Tensors& tensors, const c10d::AllreduceOptions& options) {
  delegate("all_reduce_sparse", tensors);
  return inner_->allreduce_sparse(tensors, options);
}

DelegatingBackend::WorkPtr DelegatingBackend::allreduce_coalesced(
    Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  delegate("all_reduce_coalesced", tensors);
  return inner_->allreduce_coalesced(tensors, options);
}

DelegatingBackend::WorkPtr DelegatingBackend::reduce(Tensors& tensors,
                                                     const c10d::ReduceOptions& options) {
  delegate("reduce", tensors);
  return inner_->reduce(tensors, options);
}

DelegatingBackend::WorkPtr DelegatingBackend::allgather(TensorLists& outputs, Tensors& inputs,
                                                        const c10d::AllgatherOptions& options) {
  delegate("all_gather", inputs);
  return inner_->allgather(outputs, inputs, options);
}

DelegatingBackend::WorkPtr DelegatingBackend::allgather_coalesced(
    TensorLists& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  delegate("all_gather_coalesced", inputs);
  return inner_->allgather_coalesced(outputs, inputs, options);
}

DelegatingBackend::WorkPtr DelegatingBackend::_allgather_base(
    at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) {
  delegate("all_gather_single", input);
  return inner_->_allgather_base(output, input, options);
}

DelegatingBackend::WorkPtr DelegatingBackend::allgather_into_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  delegate("all_gather_single_coalesced", inputs);
  return inner_->allgather_into_tensor_coalesced(outputs, inputs, options);
}

DelegatingBackend::WorkPtr DelegatingBackend::gather(TensorLists& outputs, Tensors& inputs,
                                                     const c10d::GatherOptions& options) {
  delegate("gather", inputs);
  return inner_->gather(outputs, inputs, options);
}

DelegatingBackend::WorkPtr DelegatingBackend::scatter(Tensors& outputs, TensorLists& inputs,
                                                      const c10d::ScatterOptions& options) {
  check_device("scatter", first_of(inputs));
  delegate("scatter", outputs);
  return inner_->scatter(outputs, inputs, options);
}

DelegatingBackend::WorkPtr DelegatingBackend::reduce_scatter(
    Tensors& outputs, TensorLists& inputs, const c10d::ReduceScatterOptions& options) {
  delegate("reduce_scatter", first_of(inputs));
  return inner_->reduce_scatter(outputs, inputs, options);
}

DelegatingBackend::WorkPtr DelegatingBackend::_reduce_scatter_base(
    at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options) {
  delegate("reduce_scatter_single", input);
  return inner_->_reduce_scatter_base(output, input, options);
}

DelegatingBackend::WorkPtr DelegatingBackend::reduce_scatter_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& options) {
  delegate("reduce_scatter_single_coalesced", inputs);
  return inner_->reduce_scatter_tensor_coalesced(outputs, inputs, options);
}

DelegatingBackend::WorkPtr DelegatingBackend::alltoall_base(at::Tensor& output, at::Tensor& input,
                                                            std::vector<std::int64_t>& out_split,
                                                            std::vector<std::int64_t>& in_split,
                                                            const c10d::AllToAllOptions& options) {
  delegate("all_to_all_single", input);
  return inner_->alltoall_base(output, input, out_split, in_split, options);
}

DelegatingBackend::WorkPtr DelegatingBackend::alltoall(Tensors& outputs, Tensors& inputs,
                                                       const c10d::AllToAllOptions& options) {
  delegate("all_to_all", inputs);
  return inner_->alltoall(outputs, inputs, options);
}

DelegatingBackend::WorkPtr DelegatingBackend::send(Tensors& tensors, int to_rank, int tag) {
  begin_transfer("send", tensors);
  return inner_->send(tensors, to_rank, tag);
}

DelegatingBackend::WorkPtr DelegatingBackend::recv(Tensors& tensors, int from_rank, int tag) {
  begin_transfer("recv", tensors);
  return inner_->recv(tensors, from_rank, tag);
}

DelegatingBackend::WorkPtr DelegatingBackend::recvAnysource(Tensors& tensors, int tag) {
  begin_transfer("recv", tensors);
  return inner_->recvAnysource(tensors, tag);
}

DelegatingBackend::WorkPtr DelegatingBackend::barrier(const c10d::BarrierOptions& options) {
  delegate("barrier", {});
  return inner_->barrier(options);
}

void DelegatingBackend::monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) {
  delegate("monitored_barrier", {});
  inner_->monitoredBarrier(options, wait_all_ranks);
}

void DelegatingBackend::setGroupUid(const std::string& uid) {
  Backend::setGroupUid(uid);
  inner_->setGroupUid(uid);
}

void DelegatingBackend::setTimeout(std::chrono::milliseconds timeout) {
  inner_->setTimeout(timeout);
}

void DelegatingBackend::shutdown() { inner_->shutdown(); }

void DelegatingBackend::abort() { inner_->abort(); }

}  // namespace atp::pytorch
