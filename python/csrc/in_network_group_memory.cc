// The collectives besides all-reduces that a group runs in the memory of its ranks' host.
#include <ATen/core/LegacyTypeDispatch.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "python/csrc/argument_checks.h"
#include "python/csrc/in_network_group.h"
#include "python/csrc/overlap.h"
#include "python/csrc/peer_requests.h"

namespace atp::pytorch {
namespace {

using c10d::OpType;
using Name = Buffers::Name;
// Autograd must not record views and copies of a leaf that requires gradients.
using NoAutograd = at::AutoDispatchBelowADInplaceOrView;

constexpr Name kMemoryAllGather{OpType::ALLGATHER, "all_gather", "atp:all_gather"};
constexpr Name kMemoryAllGatherSingle{OpType::_ALLGATHER_BASE, "all_gather_single",
                                      "atp:all_gather_single"};
constexpr Name kMemoryAllGatherCoalesced{OpType::ALLGATHER_COALESCED, "all_gather_single_coalesced",
                                         "atp:all_gather_single_coalesced"};
constexpr Name kMemoryReduceScatter{OpType::REDUCE_SCATTER, "reduce_scatter", "atp:reduce_scatter"};
constexpr Name kMemoryReduceScatterSingle{OpType::_REDUCE_SCATTER_BASE, "reduce_scatter_single",
                                          "atp:reduce_scatter_single"};
constexpr Name kMemoryReduceScatterCoalesced{OpType::REDUCE_SCATTER,
                                             "reduce_scatter_single_coalesced",
                                             "atp:reduce_scatter_single_coalesced"};
constexpr Name kMemoryBroadcast{OpType::BROADCAST, "broadcast", "atp:broadcast"};
constexpr Name kMemoryReduce{OpType::REDUCE, "reduce", "atp:reduce"};

std::byte* memory_of(const at::Tensor& tensor) {
  return static_cast<std::byte*>(tensor.data_ptr());
}

ConstBytes readable(const at::Tensor& tensor) { return {memory_of(tensor), tensor.nbytes()}; }

at::Tensor side_by_side(const std::vector<at::Tensor>& tensors) {
  const NoAutograd guard;
  std::vector<at::Tensor> flat;
  for (const at::Tensor& tensor : tensors) flat.push_back(tensor.reshape({-1}));
  return at::cat(flat);
}

HostRequest moving(const at::Tensor& tensor) {
  return {.element = std::string(c10::getDtypeNames(tensor.scalar_type()).first),
          .element_bytes = static_cast<std::size_t>(tensor.element_size())};
}

HostCollective collective_of(Collective call) {
  if (call == Collective::kGather) return HostCollective::kGather;
  return call == Collective::kScatter ? HostCollective::kScatter : HostCollective::kAllToAll;
}

bool has_values(at::TensorList tensors) {
  return std::any_of(tensors.begin(), tensors.end(),
                     [](const at::Tensor& tensor) { return tensor.numel() > 0; });
}

}  // namespace

AllReduceOptions InNetworkGroup::part_options(const c10::intrusive_ptr<CollectiveWork>& work,
                                              std::size_t parts, std::chrono::milliseconds timeout,
                                              bool waits) {
  AllReduceOptions options;
  options.timeout = timeout_of(timeout);
  options.spent = work->spent();
  options.here = waits && parts == 1;
  const EndPart end = options.here ? expect_here(work) : expect_parts(work, parts);
  options.on_done = [end_part = end](const Status& status) {
    end_part(status.ok() ? "" : status.error().message);
  };
  return options;
}

c10::intrusive_ptr<c10d::Work> InNetworkGroup::gather(const Name& name, const Tensors& outputs,
                                                      const Tensors& inputs,
                                                      const c10d::AllgatherOptions& options) {
  check_count(name, "input", inputs.size(), outputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    check_values(name, outputs[i], inputs[i], getSize());
  }
  const auto work = begin_work("innetwork", name, inputs, outputs);
  Buffers& buffers = work->buffers();
  std::vector<ConstBytes> from;
  std::vector<std::vector<Bytes>> to;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    from.push_back(readable(buffers.input(inputs[i])));
    to.push_back(blocks_of(name, buffers.output(outputs[i]), ranks()));
  }
  KeptApart apart;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    apart.read(i, from[i], from[i]);
    for (std::size_t r = 0; r < ranks(); ++r) apart.write(i, to[i][r], r == own_rank());
  }
  apart.keep(buffers);
  const AllReduceOptions part =
      part_options(work, inputs.size(), options.timeout, !options.asyncOp);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    HostRequest request = moving(inputs[i]);
    request.lengths.assign(ranks(), from[i].size());
    for (const Bytes block : to[i]) request.outputs.push_back(block.data());
    communicator_->all_gather(from[i], std::move(request), part);
  }
  return work;
}

c10::intrusive_ptr<c10d::Work> InNetworkGroup::_allgather_base(
    at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) {
  if (in_memory() && is_dense(input) && is_dense(output)) {
    return gather(kMemoryAllGatherSingle, {output}, {input}, options);
  }
  return PeersBackend::_allgather_base(output, input, options);
}

c10::intrusive_ptr<c10d::Work> InNetworkGroup::allgather_into_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  if (in_memory() && all(inputs, is_dense) && all(outputs, is_dense)) {
    return gather(kMemoryAllGatherCoalesced, outputs, inputs, options);
  }
  return PeersBackend::allgather_into_tensor_coalesced(outputs, inputs, options);
}

c10::intrusive_ptr<c10d::Work> InNetworkGroup::allgather(TensorLists& outputs, Tensors& inputs,
                                                         const c10d::AllgatherOptions& options) {
  if (!in_memory() || inputs.size() != 1 || outputs.size() != 1 || !all(inputs, is_dense) ||
      !all(outputs[0], is_dense)) {
    return PeersBackend::allgather(outputs, inputs, options);
  }
  check_count(kMemoryAllGather, "rank", ranks(), outputs[0].size());
  for (const at::Tensor& output : outputs[0]) check_type(kMemoryAllGather, inputs[0], output);
  const at::Tensor& own = outputs[0][own_rank()];
  TORCH_CHECK_VALUE(own.numel() == inputs[0].numel(), kMemoryAllGather.operation, ": expected ",
                    inputs[0].numel(), " values in this rank's output, as in its input, but found ",
                    own.numel());
  const auto work = begin_work("innetwork", kMemoryAllGather, inputs, outputs[0]);
  Buffers& buffers = work->buffers();
  ConstBytes input = readable(buffers.input(inputs[0]));
  HostRequest request = moving(inputs[0]);
  KeptApart apart;
  apart.read(0, input, input);
  for (std::size_t rank = 0; rank < ranks(); ++rank) {
    const at::Tensor output = buffers.output(outputs[0][rank]);
    apart.write(0, {memory_of(output), output.nbytes()}, rank == own_rank());
    request.lengths.push_back(output.nbytes());
    request.outputs.push_back(memory_of(output));
  }
  apart.keep(buffers);
  communicator_->all_gather(input, std::move(request),
                            part_options(work, 1, options.timeout, !options.asyncOp));
  return work;
}

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
void InNetworkGroup::submit_scatter(DataType type, ConstBytes input, const at::Tensor& output,
                                    HostRequest scattered, const AllReduceOptions& request) {
  const std::vector<std::size_t>& lengths = scattered.lengths;
  const std::size_t count = std::accumulate(lengths.begin(), lengths.end(), std::size_t{0});
  scattered.outputs = {memory_of(output)};
  // It is only read.
  const Values values{const_cast<std::byte*>(input.data()), count, type};
  communicator_->reduce_scatter(values, std::move(scattered), request);
}

c10::intrusive_ptr<c10d::Work> InNetworkGroup::scatter(const Name& name, const Carriage& carriage,
                                                       const Tensors& outputs,
                                                       const Tensors& inputs,
                                                       const c10d::ReduceScatterOptions& options) {
  check_count(name, "input", inputs.size(), outputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    check_values(name, inputs[i], outputs[i], getSize());
  }
  const auto work = begin_work("innetwork", name, inputs, outputs);
  Buffers& buffers = work->buffers();
  AllReduceOptions asked;
  HostRequest scattered = set_reduction(name, carriage, outputs, options.reduceOp, buffers, &asked);
  buffers.convert_within(timeout_of(options.timeout));
  std::vector<ConstBytes> from;
  Tensors to;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    from.push_back(readable(buffers.input(inputs[i])));
    to.push_back(buffers.output(outputs[i]));
  }
  KeptApart apart;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::size_t block = to[i].nbytes();
    apart.read(i, from[i], from[i].subspan(own_rank() * block, block));
    apart.write(i, {memory_of(to[i]), block}, true);
  }
  apart.keep(buffers);
  AllReduceOptions part = part_options(work, inputs.size(), options.timeout, !options.asyncOp);
  part.reduction = asked.reduction;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    scattered.lengths.assign(ranks(), static_cast<std::size_t>(to[i].numel()));
    submit_scatter(carriage.type, from[i], to[i], scattered, part);
  }
  return work;
}

c10::intrusive_ptr<c10d::Work> InNetworkGroup::_reduce_scatter_base(
    at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options) {
  const auto found = carriage_in_memory(output, input, options.reduceOp);
  if (found) return scatter(kMemoryReduceScatterSingle, *found, {output}, {input}, options);
  return PeersBackend::_reduce_scatter_base(output, input, options);
}

c10::intrusive_ptr<c10d::Work> InNetworkGroup::reduce_scatter_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& options) {
  const auto found = carriage_in_memory(outputs, inputs, options.reduceOp);
  if (found) return scatter(kMemoryReduceScatterCoalesced, *found, outputs, inputs, options);
  return PeersBackend::reduce_scatter_tensor_coalesced(outputs, inputs, options);
}

c10::intrusive_ptr<c10d::Work> InNetworkGroup::reduce_scatter(
    Tensors& outputs, TensorLists& inputs, const c10d::ReduceScatterOptions& options) {
  std::optional<Carriage> found;
  if (inputs.size() == 1 && outputs.size() == 1) {
    found = carriage_in_memory(outputs, inputs[0], options.reduceOp);
  }
  if (!found) return PeersBackend::reduce_scatter(outputs, inputs, options);
  check_count(kMemoryReduceScatter, "rank", ranks(), inputs[0].size());
  const at::Tensor& own = inputs[0][own_rank()];
  check_values(kMemoryReduceScatter, own, outputs[0], 1);
  const auto work = begin_work("innetwork", kMemoryReduceScatter, inputs[0], outputs);
  Buffers& buffers = work->buffers();
  AllReduceOptions asked;
  HostRequest scattered =
      set_reduction(kMemoryReduceScatter, *found, outputs, options.reduceOp, buffers, &asked);
  buffers.convert_within(timeout_of(options.timeout));
  // A copy, of which no output is a part.
  const at::Tensor input = buffers.input(side_by_side(inputs[0]));
  const at::Tensor output = buffers.output(outputs[0]);
  AllReduceOptions part = part_options(work, 1, options.timeout, !options.asyncOp);
  part.reduction = asked.reduction;
  scattered.lengths = lengths_of(inputs[0]);
  submit_scatter(found->type, readable(input), output, std::move(scattered), part);
  return work;
}

c10::intrusive_ptr<c10d::Work> InNetworkGroup::broadcast(Tensors& tensors,
                                                         const c10d::BroadcastOptions& options) {
  if (!in_memory() || tensors.size() != 1 || !is_dense(tensors[0])) {
    return PeersBackend::broadcast(tensors, options);
  }
  TORCH_CHECK_VALUE(options.rootRank >= 0 && options.rootRank < getSize(),
                    kMemoryBroadcast.operation, ": expected a root among ranks 0 to ",
                    getSize() - 1, " but found ", options.rootRank);
  const auto work = begin_work("innetwork", kMemoryBroadcast, tensors, tensors);
  const at::Tensor buffer = work->buffers().output(tensors[0]);
  HostRequest request = moving(buffer);
  request.root = static_cast<Rank>(options.rootRank);
  communicator_->broadcast({memory_of(buffer), buffer.nbytes()}, std::move(request),
                           part_options(work, 1, options.timeout, !options.asyncOp));
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
  const auto work = begin_work("innetwork", kMemoryReduce, tensors, tensors);
  Buffers& buffers = work->buffers();
  AllReduceOptions asked;
  HostRequest reduced =
      set_reduction(kMemoryReduce, *found, tensors, options.reduceOp, buffers, &asked);
  reduced.root = static_cast<Rank>(options.rootRank);
  buffers.convert_within(timeout_of(options.timeout));
  // At other ranks the tensor is undefined afterwards, so nothing is written back.
  const bool is_root = options.rootRank == getRank();
  const at::Tensor buffer =
      is_root ? buffers.output(tensors.front()) : buffers.input(tensors.front());
  AllReduceOptions part = part_options(work, 1, options.timeout, !options.asyncOp);
  part.reduction = asked.reduction;
  const Values values{memory_of(buffer), static_cast<std::size_t>(buffer.numel()), found->type};
  communicator_->reduce(values, std::move(reduced), part);
  return work;
}

// A list has one block per rank; a single block is the root's, or from the root.
void InNetworkGroup::exchange(const OwnWork& work, const CollectiveRequest& request,
                              std::chrono::milliseconds timeout, bool waits) {
  HostRequest exchanged{
      .collective = collective_of(request.call),
      .blocks_to = std::vector<ConstBytes>(ranks()),
      .blocks_from = std::vector<Bytes>(ranks()),
      .root = static_cast<Rank>(request.root),
      .element = dtype_name(static_cast<at::ScalarType>(request.type)),
      .element_bytes = c10::elementSize(static_cast<at::ScalarType>(request.type))};
  const auto place = [&](auto& blocks, const auto& given) {
    if (given.size() == ranks()) {
      std::copy(given.begin(), given.end(), blocks.begin());
    } else if (!given.empty()) {
      blocks[request.root] = given.front();
    }
  };
  place(exchanged.blocks_to, request.inputs);
  place(exchanged.blocks_from, request.outputs);
  communicator_->exchange(std::move(exchanged), part_options(work, 1, timeout, waits));
}

}  // namespace atp::pytorch
