// The sums besides all-reduces that a group runs in the memory of its ranks' host.
#include <algorithm>
#include <utility>

#include "python/csrc/argument_checks.h"
#include "python/csrc/in_network_group.h"
#include "python/csrc/overlap.h"
#include "python/csrc/peer_requests.h"

namespace atp::pytorch {
namespace {

constexpr Buffers::Name kMemoryReduce{c10d::OpType::REDUCE, "reduce", "atp:reduce"};

bool has_values(at::TensorList tensors) {
  return std::any_of(tensors.begin(), tensors.end(),
                     [](const at::Tensor& tensor) { return tensor.numel() > 0; });
}

}  // namespace

// Decided by values that all ranks share: in an uneven list a rank's own output may be empty.
std::optional<InNetworkGroup::Carriage> InNetworkGroup::carriage_in_memory(
    at::TensorList outputs, at::TensorList inputs, const c10d::ReduceOp& op) const {
  if (!in_memory() || !all(inputs, is_dense) || !all(outputs, is_dense)) return std::nullopt;
  if (!has_values(inputs)) return std::nullopt;
  const at::ScalarType type = inputs.front().scalar_type();
  for (const at::Tensor& input : inputs) {
    if (input.scalar_type() != type) return std::nullopt;
  }
  return own_carriage(type, op);
}

// Floats are added in the order of ranks, so the bits may differ from an all-reduce's.
c10::intrusive_ptr<c10d::Work> InNetworkGroup::scatter_sums(
    const Buffers::Name& name, const Tensors& outputs, const TensorLists& inputs,
    const c10d::ReduceScatterOptions& options) {
  const Tensors all_inputs = flat(inputs);
  const auto found = carriage_in_memory(outputs, all_inputs, options.reduceOp);
  if (!found) return PeersBackend::scatter_sums(name, outputs, inputs, options);
  const OwnWork work = begin_work("innetwork", name, all_inputs, outputs);
  Buffers& buffers = work->buffers();
  CollectiveRequest sum;
  sum.call = Collective::kReduceScatter;
  set_reduction(name, *found, outputs, options.reduceOp, buffers, &sum);
  buffers.convert_within(timeout_of(options.timeout));
  std::vector<CollectiveRequest> requests(outputs.size(), sum);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    set_blocks(name, inputs[i], outputs[i], buffers, &requests[i]);
  }
  keep_apart(std::span(requests), buffers, own_rank(), ranks());
  submit_own(work, std::move(requests), options.timeout, !options.asyncOp);
  return work;
}

c10::intrusive_ptr<c10d::Work> InNetworkGroup::reduce(Tensors& tensors,
                                                      const c10d::ReduceOptions& options) {
  std::optional<Carriage> found;
  if (tensors.size() == 1) found = carriage_in_memory(tensors, tensors, options.reduceOp);
  // Peers add floats along a chain or a tree: the bits of their sums depend on the order.
  const bool keeps_order =
      found && found->as_elements && !at::isIntegralType(tensors.front().scalar_type(), true);
  if (!found || keeps_order) return PeersBackend::reduce(tensors, options);
  check_root(kMemoryReduce, options.rootRank);
  const OwnWork work = begin_work("innetwork", kMemoryReduce, tensors, tensors);
  Buffers& buffers = work->buffers();
  CollectiveRequest request;
  request.call = Collective::kReduce;
  request.root = static_cast<std::size_t>(options.rootRank);
  set_reduction(kMemoryReduce, *found, tensors, options.reduceOp, buffers, &request);
  buffers.convert_within(timeout_of(options.timeout));
  // At other ranks the tensor is undefined afterwards, so nothing is written back.
  const bool is_root = options.rootRank == getRank();
  const Bytes memory = memory_of(
      kMemoryReduce, is_root ? buffers.output(tensors.front()) : buffers.input(tensors.front()));
  request.inputs = {memory};
  if (is_root) request.outputs = {memory};
  submit_own(work, {std::move(request)}, options.timeout, !options.asyncOp);
  return work;
}

}  // namespace atp::pytorch
