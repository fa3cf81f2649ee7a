// The collectives that add tensors, or combine them in another way.
#include <ATen/core/LegacyTypeDispatch.h>

#include <utility>

#include "python/csrc/argument_checks.h"
#include "python/csrc/peer_requests.h"
#include "python/csrc/peers_backend.h"
#include "python/csrc/process_group.h"
#include "python/csrc/sparse_sum.h"

namespace atp::pytorch {
namespace {

using c10d::OpType;
using Name = Buffers::Name;
using NoAutograd = at::AutoDispatchBelowADInplaceOrView;

constexpr Name kAllReduce{OpType::ALLREDUCE, "all_reduce", "atp:peers_all_reduce"};
constexpr Name kAllReduceSparse{OpType::ALLREDUCE, "all_reduce", "atp:peers_all_reduce_sparse"};
constexpr Name kAllReduceCoalesced{OpType::ALLREDUCE_COALESCED, "all_reduce_coalesced",
                                   "atp:peers_all_reduce_coalesced"};
constexpr Name kReduce{OpType::REDUCE, "reduce", "atp:reduce"};
constexpr Name kReduceScatter{OpType::REDUCE_SCATTER, "reduce_scatter", "atp:reduce_scatter"};
constexpr Name kReduceScatterSingle{OpType::_REDUCE_SCATTER_BASE, "reduce_scatter_single",
                                    "atp:reduce_scatter_single"};
constexpr Name kReduceScatterCoalesced{OpType::REDUCE_SCATTER, "reduce_scatter_single_coalesced",
                                       "atp:reduce_scatter_single_coalesced"};

bool is_float(const at::Tensor& tensor, at::ScalarType type) {
  return is_dense(tensor) && tensor.scalar_type() == type;
}
bool is_float32(const at::Tensor& tensor) { return is_float(tensor, at::kFloat); }

}  // namespace

bool PeersBackend::adds_around_ring(at::TensorList tensors, const c10d::ReduceOp& op) const {
  return ring_ && is_linear(op) &&
         std::all_of(tensors.begin(), tensors.end(), [](const at::Tensor& tensor) {
           return is_float32(tensor) || is_float(tensor, at::kDouble);
         });
}

PeersBackend::WorkPtr PeersBackend::sum_by_rule(const Name& name, const Tensors& tensors,
                                                const c10d::AllreduceOptions& options,
                                                std::vector<std::size_t> segments,
                                                NumberFormat format) {
  const OwnWork work = begin(name, tensors, tensors, /*around_ring=*/true);
  Buffers& buffers = work->buffers();
  const c10d::ReduceOp op = buffers.reduction(options.reduceOp, tensors, getSize());
  CollectiveRequest request = request_of(Collective::kAllReduce, at::kFloat);
  request.reduction = reduction_of(name, op, at::kFloat);
  request.outputs = {memory_of(name, one_buffer(buffers, tensors))};
  request.around_ring = true;
  request.format = format;
  request.segments = std::move(segments);
  return submit(work, {std::move(request)}, options.timeout, !options.asyncOp);
}

PeersBackend::WorkPtr PeersBackend::average_segments_by_peers(
    const at::Tensor& tensor, const std::vector<std::size_t>& lengths,
    std::optional<NumberFormat> format) {
  Tensors tensors{tensor};
  c10d::AllreduceOptions options;
  options.reduceOp = c10d::ReduceOp::AVG;
  options.asyncOp = true;
  if (ring_ && is_float32(tensor)) {
    return sum_by_rule(kAllReduce, tensors, options, lengths, format.value_or(*ring_));
  }
  TORCH_CHECK_TYPE(!ring_ || !format, kAllReduce.operation,
                   ": over a ring int16 on the wire is for float32, and this tensor is of ",
                   tensor.scalar_type(), "; leave it to atp.torch.ddp_hook");
  return PeersBackend::allreduce(tensors, options);
}

PeersBackend::WorkPtr PeersBackend::reduce_all(const Name& name, const Tensors& tensors,
                                               const c10d::AllreduceOptions& options) {
  const bool around_ring = adds_around_ring(tensors, options.reduceOp);
  if (around_ring && all(tensors, is_float32)) {
    const bool is_one = tensors.size() == 1;
    return sum_by_rule(name, tensors, options,
                       is_one ? std::vector<std::size_t>() : lengths_of(tensors), *ring_);
  }
  const OwnWork work = begin(name, tensors, tensors, around_ring);
  std::vector<CollectiveRequest> requests;
  const c10d::ReduceOp op = work->buffers().reduction(options.reduceOp, tensors, getSize());
  for (const at::Tensor& tensor : tensors) {
    static_cast<void>(reduction_of(name, op, tensor.scalar_type()));
  }
  for (const at::Tensor& buffer : work->buffers().outputs(tensors)) {
    requests.push_back(request_of(Collective::kAllReduce, buffer.scalar_type()));
    requests.back().reduction = reduction_of(name, op, buffer.scalar_type());
    requests.back().around_ring = around_ring;
    requests.back().outputs = {memory_of(name, buffer)};
  }
  return submit(work, std::move(requests), options.timeout, !options.asyncOp);
}

PeersBackend::WorkPtr PeersBackend::allreduce(Tensors& tensors,
                                              const c10d::AllreduceOptions& options) {
  if (tensors.size() == 1 && !is_dense(tensors.front())) return allreduce_sparse(tensors, options);
  return reduce_all(kAllReduce, tensors, options);
}

PeersBackend::WorkPtr PeersBackend::allreduce_coalesced(
    Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  return reduce_all(kAllReduceCoalesced, tensors, options);
}

PeersBackend::WorkPtr PeersBackend::allreduce_sparse(Tensors& tensors,
                                                     const c10d::AllreduceOptions& options) {
  check_count(kAllReduceSparse, "call", 1, tensors.size());
  TORCH_CHECK_VALUE(options.reduceOp.op_ == c10d::ReduceOp::SUM, kAllReduceSparse.operation,
                    ": sparse tensors can only be summed; use ReduceOp.SUM, and divide the result "
                    "for an average");
  const at::Tensor tensor = tensors.front();
  const OwnWork work = begin(kAllReduceSparse, tensors, tensors);
  const auto sum = SparseSum::of(*peers_, tensor, timeout_of(options.timeout));
  work->buffers().set_last_step([sum, tensor] {
    const NoAutograd guard;
    tensor.copy_(sum->result());
  });
  sum->begin(expect_parts(work, 1));
  return work;
}

PeersBackend::WorkPtr PeersBackend::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  check_root(kReduce, options.rootRank);
  check_count(kReduce, "call", 1, tensors.size());
  const OwnWork work = begin(kReduce, tensors, tensors);
  Buffers& buffers = work->buffers();
  const c10d::ReduceOp op = buffers.reduction(options.reduceOp, tensors, getSize());
  const at::ScalarType type = tensors.front().scalar_type();
  CollectiveRequest request = request_of(Collective::kReduce, type);
  request.reduction = reduction_of(kReduce, op, type);
  request.root = static_cast<std::size_t>(options.rootRank);
  // At other ranks the tensor is undefined afterwards, so nothing is written back.
  const bool is_root = options.rootRank == getRank();
  const at::Tensor buffer =
      is_root ? buffers.output(tensors.front()) : buffers.input(tensors.front());
  const Bytes memory = memory_of(kReduce, buffer);
  request.inputs = {memory};
  if (is_root) request.outputs = {memory};
  return submit(work, {std::move(request)}, options.timeout, !options.asyncOp);
}

void PeersBackend::set_blocks(const Name& name, const Tensors& inputs, const at::Tensor& output,
                              Buffers& buffers, CollectiveRequest* request) const {
  if (inputs.size() == ranks()) {
    for (const at::Tensor& input : inputs) {
      request->inputs.push_back(memory_of(name, buffers.input(input)));
    }
  } else {
    for (const Bytes block : blocks_of(name, buffers.input(inputs.front()), ranks())) {
      request->inputs.push_back(block);
    }
  }
  request->outputs = {memory_of(name, buffers.output(output))};
}

PeersBackend::WorkPtr PeersBackend::scatter_sums(const Name& name, const Tensors& outputs,
                                                 const TensorLists& inputs,
                                                 const c10d::ReduceScatterOptions& options) {
  const Tensors all = flat(inputs);
  const bool around_ring =
      adds_around_ring(outputs, options.reduceOp) && adds_around_ring(all, options.reduceOp);
  const OwnWork work = begin(name, all, outputs, around_ring);
  Buffers& buffers = work->buffers();
  const c10d::ReduceOp op = buffers.reduction(options.reduceOp, outputs, getSize());
  std::vector<CollectiveRequest> requests;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const at::ScalarType type = outputs[i].scalar_type();
    CollectiveRequest request = request_of(Collective::kReduceScatter, type);
    request.reduction = reduction_of(name, op, type);
    request.around_ring = around_ring;
    set_blocks(name, inputs[i], outputs[i], buffers, &request);
    requests.push_back(std::move(request));
  }
  return submit(work, std::move(requests), options.timeout, !options.asyncOp);
}

PeersBackend::WorkPtr PeersBackend::reduce_scatter(Tensors& outputs, TensorLists& inputs,
                                                   const c10d::ReduceScatterOptions& options) {
  TORCH_CHECK_VALUE(inputs.size() == outputs.size(), kReduceScatter.operation,
                    ": expected a list of inputs for each output, but found ", inputs.size(),
                    " for ", outputs.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    check_count(kReduceScatter, "rank", ranks(), inputs[i].size());
    for (const at::Tensor& input : inputs[i]) check_type(kReduceScatter, input, outputs[i]);
    check_values(kReduceScatter, inputs[i][own_rank()], outputs[i], 1);
  }
  return scatter_sums(kReduceScatter, outputs, inputs, options);
}

PeersBackend::WorkPtr PeersBackend::_reduce_scatter_base(
    at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options) {
  check_values(kReduceScatterSingle, input, output, getSize());
  return scatter_sums(kReduceScatterSingle, {output}, {{input}}, options);
}

PeersBackend::WorkPtr PeersBackend::reduce_scatter_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& options) {
  check_count(kReduceScatterCoalesced, "input", inputs.size(), outputs.size());
  TensorLists lists;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    check_values(kReduceScatterCoalesced, inputs[i], outputs[i], getSize());
    lists.push_back({inputs[i]});
  }
  return scatter_sums(kReduceScatterCoalesced, outputs, lists, options);
}

}  // namespace atp::pytorch
