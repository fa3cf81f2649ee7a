// The collectives that only move tensors.
#include <torch/csrc/distributed/c10d/Utils.hpp>
#include <utility>

#include "python/csrc/argument_checks.h"
#include "python/csrc/peer_requests.h"
#include "python/csrc/peers_backend.h"

namespace atp::pytorch {
namespace {

using c10d::OpType;
using Name = Buffers::Name;

constexpr Name kBroadcast{OpType::BROADCAST, "broadcast", "atp:broadcast"};
constexpr Name kAllGather{OpType::ALLGATHER, "all_gather", "atp:all_gather"};
constexpr Name kAllGatherLists{OpType::ALLGATHER_COALESCED, "all_gather_coalesced",
                               "atp:all_gather_coalesced"};
constexpr Name kAllGatherSingle{OpType::_ALLGATHER_BASE, "all_gather_single",
                                "atp:all_gather_single"};
constexpr Name kAllGatherCoalesced{OpType::ALLGATHER_COALESCED, "all_gather_single_coalesced",
                                   "atp:all_gather_single_coalesced"};
constexpr Name kGather{OpType::GATHER, "gather", "atp:gather"};
#ifdef ATP_TORCH_HAS_GATHER_SINGLE
constexpr Name kGatherSingle{OpType::GATHER, "gather_single", "atp:gather_single"};
#endif
constexpr Name kScatter{OpType::SCATTER, "scatter", "atp:scatter"};
constexpr Name kAllToAll{OpType::ALLTOALL, "all_to_all", "atp:all_to_all"};
constexpr Name kAllToAllSingle{OpType::ALLTOALL_BASE, "all_to_all_single", "atp:all_to_all_single"};

// A root's list of tensors: one at that rank, none elsewhere.
void check_list_of_root(const Name& name, const PeersBackend::TensorLists& lists, bool is_root,
                        std::size_t ranks, const at::Tensor& block) {
  TORCH_CHECK_VALUE(is_root || lists.empty(), name.operation,
                    ": only the root has a list of tensors, and this rank is not the root");
  if (!is_root) return;
  TORCH_CHECK_VALUE(lists.size() == 1, name.operation, ": expected one list of tensors, but found ",
                    lists.size());
  check_count(name, "rank", ranks, lists.front().size());
  for (const at::Tensor& tensor : lists.front()) check_values(name, tensor, block, 1);
}

std::vector<ConstBytes> read_only(const std::vector<Bytes>& blocks) {
  return {blocks.begin(), blocks.end()};
}

std::vector<std::int64_t> lengths_of(const Name& name, const std::vector<std::int64_t>& split,
                                     const at::Tensor& tensor, int ranks) {
  TORCH_CHECK_VALUE(tensor.dim() > 0, name.operation, ": a tensor without dimensions has no rows");
  c10d::checkSplitSizes(split, tensor, ranks);
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(ranks));
  std::vector<std::int64_t> offsets(lengths.size());
  c10d::computeLengthsAndOffsets(split, tensor, &lengths, &offsets);
  return lengths;
}

}  // namespace

PeersBackend::Tensors PeersBackend::flat(const TensorLists& lists) {
  Tensors all;
  for (const auto& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

PeersBackend::WorkPtr PeersBackend::broadcast(Tensors& tensors,
                                              const c10d::BroadcastOptions& options) {
  check_root(kBroadcast, options.rootRank);
  const OwnWork work = begin_move(kBroadcast, tensors, tensors);
  std::vector<CollectiveRequest> requests;
  for (const at::Tensor& buffer : work->buffers().outputs(tensors)) {
    requests.push_back(request_of(Collective::kBroadcast, buffer.scalar_type()));
    requests.back().root = static_cast<std::size_t>(options.rootRank);
    requests.back().outputs = {memory_of(kBroadcast, buffer)};
  }
  return submit_move(work, std::move(requests), options.timeout, !options.asyncOp);
}

PeersBackend::WorkPtr PeersBackend::allgather(TensorLists& outputs, Tensors& inputs,
                                              const c10d::AllgatherOptions& options) {
  check_count(kAllGather, "list of outputs", outputs.size(), inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    check_count(kAllGather, "rank", ranks(), outputs[i].size());
    for (const at::Tensor& output : outputs[i]) check_type(kAllGather, inputs[i], output);
    const at::Tensor& own = outputs[i][own_rank()];
    TORCH_CHECK_VALUE(own.numel() == inputs[i].numel(), kAllGather.operation, ": expected ",
                      inputs[i].numel(),
                      " values in this rank's output, as in its input, but found ", own.numel());
  }
  const bool around_ring = ring_ && all(inputs, is_dense) && all(flat(outputs), is_dense);
  const OwnWork work = begin_move(kAllGather, inputs, flat(outputs), around_ring);
  std::vector<CollectiveRequest> requests;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    CollectiveRequest request = request_of(Collective::kAllGather, inputs[i].scalar_type());
    request.around_ring = around_ring;
    request.inputs = {memory_of(kAllGather, work->buffers().input(inputs[i]))};
    for (const at::Tensor& output : outputs[i]) {
      request.outputs.push_back(memory_of(kAllGather, work->buffers().output(output)));
    }
    requests.push_back(std::move(request));
  }
  return submit_move(work, std::move(requests), options.timeout, !options.asyncOp);
}

// Its lists are by rank; each has an output for every input.
PeersBackend::WorkPtr PeersBackend::allgather_coalesced(TensorLists& outputs, Tensors& inputs,
                                                        const c10d::AllgatherOptions& options) {
  check_count(kAllGatherLists, "rank", ranks(), outputs.size());
  for (const auto& list : outputs) {
    check_count(kAllGatherLists, "input", inputs.size(), list.size());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      check_values(kAllGatherLists, list[i], inputs[i], 1);
    }
  }
  const OwnWork work = begin_move(kAllGatherLists, inputs, flat(outputs));
  std::vector<CollectiveRequest> requests;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    CollectiveRequest request = request_of(Collective::kAllGather, inputs[i].scalar_type());
    request.inputs = {memory_of(kAllGatherLists, work->buffers().input(inputs[i]))};
    for (const auto& list : outputs) {
      request.outputs.push_back(memory_of(kAllGatherLists, work->buffers().output(list[i])));
    }
    requests.push_back(std::move(request));
  }
  return submit_move(work, std::move(requests), options.timeout, !options.asyncOp);
}

PeersBackend::WorkPtr PeersBackend::gather_all(const Name& name, const Tensors& outputs,
                                               const Tensors& inputs,
                                               const c10d::AllgatherOptions& options) {
  check_count(name, "input", inputs.size(), outputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    check_values(name, outputs[i], inputs[i], getSize());
  }
  const bool around_ring = ring_ && all(inputs, is_dense) && all(outputs, is_dense);
  const OwnWork work = begin_move(name, inputs, outputs, around_ring);
  std::vector<CollectiveRequest> requests;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    CollectiveRequest request = request_of(Collective::kAllGather, inputs[i].scalar_type());
    request.around_ring = around_ring;
    request.inputs = {memory_of(name, work->buffers().input(inputs[i]))};
    request.outputs = blocks_of(name, work->buffers().output(outputs[i]), ranks());
    requests.push_back(std::move(request));
  }
  return submit_move(work, std::move(requests), options.timeout, !options.asyncOp);
}

PeersBackend::WorkPtr PeersBackend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                    const c10d::AllgatherOptions& options) {
  return gather_all(kAllGatherSingle, {output}, {input}, options);
}

PeersBackend::WorkPtr PeersBackend::allgather_into_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  return gather_all(kAllGatherCoalesced, outputs, inputs, options);
}

PeersBackend::WorkPtr PeersBackend::gather(TensorLists& outputs, Tensors& inputs,
                                           const c10d::GatherOptions& options) {
  check_root(kGather, options.rootRank);
  check_count(kGather, "call", 1, inputs.size());
  check_list_of_root(kGather, outputs, options.rootRank == getRank(), ranks(), inputs.front());
  const OwnWork work = begin_move(kGather, inputs, flat(outputs));
  CollectiveRequest request = request_of(Collective::kGather, inputs.front().scalar_type());
  request.root = static_cast<std::size_t>(options.rootRank);
  request.inputs = {memory_of(kGather, work->buffers().input(inputs.front()))};
  for (const at::Tensor& output : flat(outputs)) {
    request.outputs.push_back(memory_of(kGather, work->buffers().output(output)));
  }
  return submit_move(work, {std::move(request)}, options.timeout, !options.asyncOp);
}

#ifdef ATP_TORCH_HAS_GATHER_SINGLE
// Only the root's output counts; torch gives the other ranks an empty one.
PeersBackend::WorkPtr PeersBackend::gather_single(at::Tensor& output, at::Tensor& input,
                                                  const c10d::GatherOptions& options) {
  check_root(kGatherSingle, options.rootRank);
  const bool is_root = options.rootRank == getRank();
  if (is_root) check_values(kGatherSingle, output, input, getSize());
  const OwnWork work = begin_move(kGatherSingle, input, is_root ? Tensors{output} : Tensors{});
  CollectiveRequest request = request_of(Collective::kGather, input.scalar_type());
  request.root = static_cast<std::size_t>(options.rootRank);
  request.inputs = {memory_of(kGatherSingle, work->buffers().input(input))};
  if (is_root) {
    request.outputs = blocks_of(kGatherSingle, work->buffers().output(output), ranks());
  }
  return submit_move(work, {std::move(request)}, options.timeout, !options.asyncOp);
}
#endif

PeersBackend::WorkPtr PeersBackend::scatter(Tensors& outputs, TensorLists& inputs,
                                            const c10d::ScatterOptions& options) {
  check_root(kScatter, options.rootRank);
  check_count(kScatter, "call", 1, outputs.size());
  check_list_of_root(kScatter, inputs, options.rootRank == getRank(), ranks(), outputs.front());
  const OwnWork work = begin_move(kScatter, outputs, outputs);
  CollectiveRequest request = request_of(Collective::kScatter, outputs.front().scalar_type());
  request.root = static_cast<std::size_t>(options.rootRank);
  for (const at::Tensor& input : flat(inputs)) {
    request.inputs.push_back(memory_of(kScatter, work->buffers().input(input)));
  }
  request.outputs = {memory_of(kScatter, work->buffers().output(outputs.front()))};
  return submit_move(work, {std::move(request)}, options.timeout, !options.asyncOp);
}

PeersBackend::WorkPtr PeersBackend::alltoall_base(at::Tensor& output, at::Tensor& input,
                                                  std::vector<std::int64_t>& out_split,
                                                  std::vector<std::int64_t>& in_split,
                                                  const c10d::AllToAllOptions& options) {
  check_type(kAllToAllSingle, input, output);
  const auto sent = lengths_of(kAllToAllSingle, in_split, input, getSize());
  const auto got = lengths_of(kAllToAllSingle, out_split, output, getSize());
  const OwnWork work = begin_move(kAllToAllSingle, input, {output});
  CollectiveRequest request = request_of(Collective::kAllToAll, input.scalar_type());
  request.inputs =
      read_only(blocks_of(kAllToAllSingle, work->buffers().input(input), ranks(), sent));
  request.outputs = blocks_of(kAllToAllSingle, work->buffers().output(output), ranks(), got);
  return submit_move(work, {std::move(request)}, options.timeout, !options.asyncOp);
}

PeersBackend::WorkPtr PeersBackend::alltoall(Tensors& outputs, Tensors& inputs,
                                             const c10d::AllToAllOptions& options) {
  check_count(kAllToAll, "rank", ranks(), inputs.size());
  check_count(kAllToAll, "rank", ranks(), outputs.size());
  for (std::size_t i = 0; i < ranks(); ++i) {
    check_type(kAllToAll, inputs.front(), inputs[i]);
    check_type(kAllToAll, inputs.front(), outputs[i]);
  }
  const OwnWork work = begin_move(kAllToAll, inputs, outputs);
  CollectiveRequest request = request_of(Collective::kAllToAll, inputs.front().scalar_type());
  for (std::size_t i = 0; i < ranks(); ++i) {
    request.inputs.push_back(memory_of(kAllToAll, work->buffers().input(inputs[i])));
    request.outputs.push_back(memory_of(kAllToAll, work->buffers().output(outputs[i])));
  }
  return submit_move(work, {std::move(request)}, options.timeout, !options.asyncOp);
}

}  // namespace atp::pytorch
