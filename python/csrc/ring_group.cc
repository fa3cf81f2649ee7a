#include "python/csrc/ring_group.h"

#include <algorithm>
#include <utility>

#include "python/csrc/argument_checks.h"
#include "python/csrc/overlap.h"

// Decides which collectives the ring carries, splits them into its requests, and leaves all others
// to the peer connections.

namespace atp::pytorch {
namespace {

using c10d::OpType;
using Name = Buffers::Name;

constexpr Name kRingAllReduce{OpType::ALLREDUCE, "all_reduce", "atp:ring_all_reduce"};
constexpr Name kRingAllReduceCoalesced{OpType::ALLREDUCE_COALESCED, "all_reduce_coalesced",
                                       "atp:ring_all_reduce_coalesced"};
constexpr Name kRingAllGather{OpType::ALLGATHER, "all_gather", "atp:ring_all_gather"};
constexpr Name kRingAllGatherSingle{OpType::_ALLGATHER_BASE, "all_gather_single",
                                    "atp:ring_all_gather_single"};
constexpr Name kRingAllGatherCoalesced{OpType::ALLGATHER_COALESCED, "all_gather_single_coalesced",
                                       "atp:ring_all_gather_single_coalesced"};
constexpr Name kRingReduceScatter{OpType::REDUCE_SCATTER, "reduce_scatter",
                                  "atp:ring_reduce_scatter"};
constexpr Name kRingReduceScatterSingle{OpType::_REDUCE_SCATTER_BASE, "reduce_scatter_single",
                                        "atp:ring_reduce_scatter_single"};
constexpr Name kRingReduceScatterCoalesced{OpType::REDUCE_SCATTER,
                                           "reduce_scatter_single_coalesced",
                                           "atp:ring_reduce_scatter_single_coalesced"};

bool is_addable(const at::Tensor& tensor) {
  return is_dense(tensor) &&
         (tensor.scalar_type() == at::kFloat || tensor.scalar_type() == at::kDouble);
}

bool is_float32(const at::Tensor& tensor) {
  return is_dense(tensor) && tensor.scalar_type() == at::kFloat;
}

ElementType type_of(const at::Tensor& tensor) {
  if (tensor.scalar_type() == at::kFloat) return ElementType::kFloat32;
  return tensor.scalar_type() == at::kDouble ? ElementType::kFloat64 : ElementType::kByte;
}

Bytes bytes_of(const at::Tensor& buffer) {
  return {static_cast<std::byte*>(buffer.data_ptr()), static_cast<std::size_t>(buffer.nbytes())};
}

}  // namespace

RingGroup::RingGroup(int rank, int size, std::chrono::milliseconds timeout,
                     std::unique_ptr<Ring> ring, NumberFormat format)
    : ProcessGroupATP(rank, size, timeout), format_(format), ring_(std::move(ring)) {}

c10::intrusive_ptr<c10d::Work> RingGroup::submit(const c10::intrusive_ptr<CollectiveWork>& work,
                                                 std::vector<RingRequest> requests,
                                                 std::chrono::milliseconds timeout) {
  // All-reduces work in place.
  const bool in_place =
      !requests.empty() && requests.front().collective == RingCollective::kAllReduce;
  if (!in_place) keep_apart(std::span(requests), work->buffers(), own_rank(), ranks());
  const auto end_part = expect_parts(work, requests.size());
  for (RingRequest& request : requests) {
    request.timeout = timeout_of(timeout);
    request.timeout_is_total = true;
    request.spent = work->spent();
    request.on_done = [end_part](const Status& status) {
      end_part(status.ok() ? "" : status.error().message);
    };
    ring_->submit(std::move(request));
  }
  return work;
}

c10::intrusive_ptr<c10d::Work> RingGroup::sum(const Name& name, const Tensors& tensors,
                                              const c10d::AllreduceOptions& options) {
  if (all(tensors, is_float32)) {
    std::vector<std::size_t> segments;
    if (tensors.size() > 1) segments = lengths_of(tensors);
    return sum_by_rule(name, tensors, options, std::move(segments), format_);
  }
  const auto work = begin_work("ring", name, tensors, tensors);
  const Reduction reduction = reduction_of(options.reduceOp, tensors, work->buffers(), getSize());
  std::vector<RingRequest> requests;
  for (const at::Tensor& tensor : tensors) {
    const at::Tensor buffer = work->buffers().output(tensor);
    requests.push_back(all_reduce_request(type_of(buffer), bytes_of(buffer), ranks()));
    requests.back().reduction = reduction;
    requests.back().format = format_;
  }
  return submit(work, std::move(requests), options.timeout);
}

c10::intrusive_ptr<c10d::Work> RingGroup::sum_by_rule(const Name& name, const Tensors& tensors,
                                                      const c10d::AllreduceOptions& options,
                                                      std::vector<std::size_t> segments,
                                                      NumberFormat format) {
  const auto work = begin_work("ring", name, tensors, tensors);
  const Reduction reduction = reduction_of(options.reduceOp, tensors, work->buffers(), getSize());
  const at::Tensor buffer = one_buffer(work->buffers(), tensors);
  RingRequest request = all_reduce_request(ElementType::kFloat32, bytes_of(buffer), ranks());
  request.reduction = reduction;
  request.format = format;
  request.segments = std::move(segments);
  return submit(work, {std::move(request)}, options.timeout);
}

c10::intrusive_ptr<c10d::Work> RingGroup::average_segments(const at::Tensor& tensor,
                                                           const std::vector<std::size_t>& lengths,
                                                           std::optional<NumberFormat> format) {
  Tensors tensors{tensor};
  c10d::AllreduceOptions options;
  options.reduceOp = c10d::ReduceOp::AVG;
  if (is_float32(tensor)) {
    return sum_by_rule(kRingAllReduce, tensors, options, lengths, format.value_or(format_));
  }
  TORCH_CHECK_TYPE(!format, kRingAllReduce.operation,
                   ": over a ring int16 on the wire is for float32, and this tensor is of ",
                   tensor.scalar_type(), "; leave it to atp.torch.ddp_hook");
  return allreduce(tensors, options);
}

c10::intrusive_ptr<c10d::Work> RingGroup::gather(const Name& name, const Tensors& outputs,
                                                 const Tensors& inputs,
                                                 const c10d::AllgatherOptions& options) {
  check_count(name, "input", inputs.size(), outputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    check_values(name, outputs[i], inputs[i], getSize());
  }
  const auto work = begin_work("ring", name, inputs, outputs);
  std::vector<RingRequest> requests;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    requests.push_back(all_gather_request(type_of(inputs[i]),
                                          bytes_of(work->buffers().input(inputs[i])),
                                          bytes_of(work->buffers().output(outputs[i])), ranks()));
  }
  return submit(work, std::move(requests), options.timeout);
}

c10::intrusive_ptr<c10d::Work> RingGroup::scatter(const Name& name, const Tensors& outputs,
                                                  const Tensors& inputs,
                                                  const c10d::ReduceScatterOptions& options) {
  check_count(name, "input", inputs.size(), outputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    check_values(name, inputs[i], outputs[i], getSize());
  }
  const auto work = begin_work("ring", name, inputs, outputs);
  const Reduction reduction = reduction_of(options.reduceOp, outputs, work->buffers(), getSize());
  std::vector<RingRequest> requests;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    requests.push_back(
        reduce_scatter_request(type_of(inputs[i]), bytes_of(work->buffers().input(inputs[i])),
                               bytes_of(work->buffers().output(outputs[i])), ranks()));
    requests.back().reduction = reduction;
  }
  return submit(work, std::move(requests), options.timeout);
}

c10::intrusive_ptr<c10d::Work> RingGroup::allreduce(Tensors& tensors,
                                                    const c10d::AllreduceOptions& options) {
  if (all(tensors, is_addable) && is_linear(options.reduceOp)) {
    return sum(kRingAllReduce, tensors, options);
  }
  return PeersBackend::allreduce(tensors, options);
}

c10::intrusive_ptr<c10d::Work> RingGroup::allreduce_coalesced(
    Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  if (all(tensors, is_addable) && is_linear(options.reduceOp)) {
    return sum(kRingAllReduceCoalesced, tensors, options);
  }
  return PeersBackend::allreduce_coalesced(tensors, options);
}

c10::intrusive_ptr<c10d::Work> RingGroup::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                          const c10d::AllgatherOptions& options) {
  if (is_dense(input) && is_dense(output)) {
    return gather(kRingAllGatherSingle, {output}, {input}, options);
  }
  return PeersBackend::_allgather_base(output, input, options);
}

c10::intrusive_ptr<c10d::Work> RingGroup::allgather_into_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  if (all(inputs, is_dense) && all(outputs, is_dense)) {
    return gather(kRingAllGatherCoalesced, outputs, inputs, options);
  }
  return PeersBackend::allgather_into_tensor_coalesced(outputs, inputs, options);
}

c10::intrusive_ptr<c10d::Work> RingGroup::allgather(TensorLists& outputs, Tensors& inputs,
                                                    const c10d::AllgatherOptions& options) {
  if (inputs.size() != 1 || outputs.size() != 1 || !all(inputs, is_dense) ||
      !all(outputs[0], is_dense)) {
    return PeersBackend::allgather(outputs, inputs, options);
  }
  check_count(kRingAllGather, "rank", ranks(), outputs[0].size());
  for (const at::Tensor& output : outputs[0]) check_type(kRingAllGather, inputs[0], output);
  const auto work = begin_work("ring", kRingAllGather, inputs, outputs[0]);
  RingRequest request{.collective = RingCollective::kAllGather, .type = type_of(inputs[0])};
  request.inputs = {bytes_of(work->buffers().input(inputs[0]))};
  for (const at::Tensor& output : outputs[0]) {
    request.outputs.push_back(bytes_of(work->buffers().output(output)));
  }
  return submit(work, {std::move(request)}, options.timeout);
}

c10::intrusive_ptr<c10d::Work> RingGroup::_reduce_scatter_base(
    at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options) {
  if (is_addable(input) && is_addable(output) && is_linear(options.reduceOp)) {
    return scatter(kRingReduceScatterSingle, {output}, {input}, options);
  }
  return PeersBackend::_reduce_scatter_base(output, input, options);
}

c10::intrusive_ptr<c10d::Work> RingGroup::reduce_scatter_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& options) {
  if (all(inputs, is_addable) && all(outputs, is_addable) && is_linear(options.reduceOp)) {
    return scatter(kRingReduceScatterCoalesced, outputs, inputs, options);
  }
  return PeersBackend::reduce_scatter_tensor_coalesced(outputs, inputs, options);
}

c10::intrusive_ptr<c10d::Work> RingGroup::reduce_scatter(
    Tensors& outputs, TensorLists& inputs, const c10d::ReduceScatterOptions& options) {
  if (inputs.size() != 1 || outputs.size() != 1 || !all(inputs[0], is_addable) ||
      !all(outputs, is_addable) || !is_linear(options.reduceOp)) {
    return PeersBackend::reduce_scatter(outputs, inputs, options);
  }
  check_count(kRingReduceScatter, "rank", ranks(), inputs[0].size());
  for (const at::Tensor& input : inputs[0]) check_type(kRingReduceScatter, input, outputs[0]);
  const auto work = begin_work("ring", kRingReduceScatter, inputs[0], outputs);
  RingRequest request{
      .collective = RingCollective::kReduceScatter,
      .type = type_of(outputs[0]),
      .reduction = reduction_of(options.reduceOp, outputs, work->buffers(), getSize())};
  for (const at::Tensor& input : inputs[0]) {
    request.inputs.push_back(bytes_of(work->buffers().input(input)));
  }
  request.outputs = {bytes_of(work->buffers().output(outputs[0]))};
  return submit(work, {std::move(request)}, options.timeout);
}

void RingGroup::leave_transport() {
  // The operations in progress have ended, and their callers know of any failure.
  static_cast<void>(ring_->shutdown());
}

void RingGroup::abort_transport() { ring_->abort(leaving_because()); }

void RingGroup::give_up_transport() { ring_->give_up(leaving_because()); }

}  // namespace atp::pytorch
