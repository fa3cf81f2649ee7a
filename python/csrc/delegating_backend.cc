#include "python/csrc/delegating_backend.h"

#include <utility>

#include "python/csrc/received_work.h"

namespace atp::pytorch {
namespace {

using c10d::OpType;
using Name = Buffers::Name;

// Without titles: the inner group has its own in profiles.
constexpr Name kBroadcast{OpType::BROADCAST, "broadcast"};
constexpr Name kAllReduce{OpType::ALLREDUCE, "all_reduce"};
constexpr Name kAllReduceSparse{OpType::ALLREDUCE, "all_reduce_sparse"};
constexpr Name kAllReduceCoalesced{OpType::ALLREDUCE_COALESCED, "all_reduce_coalesced"};
constexpr Name kReduce{OpType::REDUCE, "reduce"};
constexpr Name kAllGather{OpType::ALLGATHER, "all_gather"};
constexpr Name kAllGatherCoalesced{OpType::ALLGATHER_COALESCED, "all_gather_coalesced"};
constexpr Name kAllGatherSingle{OpType::_ALLGATHER_BASE, "all_gather_single"};
constexpr Name kAllGatherSingleCoalesced{OpType::ALLGATHER_COALESCED,
                                         "all_gather_single_coalesced"};
constexpr Name kGather{OpType::GATHER, "gather"};
constexpr Name kScatter{OpType::SCATTER, "scatter"};
constexpr Name kReduceScatter{OpType::REDUCE_SCATTER, "reduce_scatter"};
constexpr Name kReduceScatterSingle{OpType::_REDUCE_SCATTER_BASE, "reduce_scatter_single"};
constexpr Name kReduceScatterSingleCoalesced{OpType::REDUCE_SCATTER,
                                             "reduce_scatter_single_coalesced"};
constexpr Name kAllToAllSingle{OpType::ALLTOALL_BASE, "all_to_all_single"};
constexpr Name kAllToAll{OpType::ALLTOALL, "all_to_all"};
constexpr Name kBarrier{OpType::BARRIER, "barrier"};

void check_device(const char* operation, at::TensorList tensors) {
  for (const at::Tensor& tensor : tensors) Buffers::check_device(operation, tensor);
}

at::TensorList first_of(const DelegatingBackend::TensorLists& lists) {
  return lists.empty() ? at::TensorList() : at::TensorList(lists.front());
}

// All of them one after the other, as a Future has them.
DelegatingBackend::Tensors flat(const DelegatingBackend::TensorLists& lists) {
  DelegatingBackend::Tensors all;
  for (const auto& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

DelegatingBackend::TensorLists inputs_of(Buffers& buffers,
                                         const DelegatingBackend::TensorLists& lists) {
  DelegatingBackend::TensorLists result;
  for (const auto& list : lists) result.push_back(buffers.inputs(list));
  return result;
}

DelegatingBackend::TensorLists outputs_of(Buffers& buffers,
                                          const DelegatingBackend::TensorLists& lists) {
  DelegatingBackend::TensorLists result;
  for (const auto& list : lists) result.push_back(buffers.outputs(list));
  return result;
}

// `input` must be as large as `blocks` outputs.
void check_block(const char* operation, const at::Tensor& input, const at::Tensor& output,
                 std::int64_t blocks) {
  TORCH_CHECK_TYPE(input.scalar_type() == output.scalar_type(), operation,
                   ": input and output must have one type, and they are ", input.scalar_type(),
                   " and ", output.scalar_type());
  TORCH_CHECK_VALUE(input.numel() == blocks * output.numel(), operation, ": expected ",
                    blocks * output.numel(), " values, ", blocks, " times the ", output.numel(),
                    " of the output, and found ", input.numel());
}

void end_with(const DelegatingBackend::WorkPtr& inner,
              const std::function<void(const std::string&)>& end_part) {
  inner->getFuture()->addCallback([end_part](c10::ivalue::Future& future) {
    end_part(future.hasError() ? future.tryRetrieveErrorMessage() : "");
  });
}

}  // namespace

DelegatingBackend::DelegatingBackend(int rank, int size, c10::intrusive_ptr<c10d::Backend> inner)
    : Backend(rank, size), inner_(std::move(inner)), completion_(CompletionPool::start()) {}

DelegatingBackend::~DelegatingBackend() { end_threads(); }

void DelegatingBackend::end_threads() {
  if (is_forked()) {
    // Neither may be destroyed here: they would wait for threads that only the parent has.
    static_cast<void>(inner_.release());
    if (completion_ != nullptr) {
      [[maybe_unused]] const auto* left_alone = new std::shared_ptr(std::move(completion_));
    }
    return;
  }
  inner_.reset();
  if (completion_ != nullptr) completion_->close();
}

void DelegatingBackend::check_owner(const char* operation) const {
  TORCH_CHECK_WITH(DistBackendError, !is_forked(), operation,
                   ": this process was forked after the process group was made, and has no part in "
                   "it; leave collectives to the parent, or call destroy_process_group() and "
                   "init_process_group() here (or start the process with the method \"spawn\")");
}

std::uint64_t DelegatingBackend::begin(const char* path, const char* operation,
                                       at::TensorList tensors) {
  check_owner(operation);
  check_device(operation, tensors);
  traffic_.add(path, operation, tensors);
  return ++sequence_;
}

void DelegatingBackend::begin_transfer(const char* operation, at::TensorList tensors) {
  check_owner(operation);
  check_device(operation, tensors);
  traffic_.add("gloo", operation, tensors);
}

DelegatingBackend::EndPart DelegatingBackend::expect_parts(
    const c10::intrusive_ptr<CollectiveWork>& work, std::size_t count) {
  // What goes on its way below never ends if an exception comes in between; the group does not wait
  // for it then, as the parts that were not begun give it up.
  const auto expected = std::make_shared<CompletionPool::Expected>(completion_->expect());
  const auto end = [work, expected] {
    expected->end({.settle = [work] { work->settle(); }, .tell = [work] { work->tell(); }});
  };
  if (!work->expect_parts(count)) end();
  return [work, end](const std::string& error) {
    if (work->end_part(error)) end();
  };
}

DelegatingBackend::EndPart DelegatingBackend::expect_here(
    const c10::intrusive_ptr<CollectiveWork>& work) {
  const auto expected = std::make_shared<CompletionPool::Expected>(completion_->expect());
  work->expect_parts(1);
  return [work, expected, caller = std::this_thread::get_id()](const std::string& error) {
    work->end_part(error);
    CompletionPool::Ended ended{.settle = [work] { work->settle(); },
                                .tell = [work] { work->tell(); }};
    if (std::this_thread::get_id() == caller) {
      expected->end_here(ended);
    } else {
      expected->end(std::move(ended));
    }
  };
}

DelegatingBackend::Delegated DelegatingBackend::delegate(const Name& name, at::TensorList inputs) {
  return {begin("gloo", name.operation, inputs), Buffers(name)};
}

DelegatingBackend::WorkPtr DelegatingBackend::follow(Delegated call, const Tensors& results,
                                                     WorkPtr inner) {
  if (!call.buffers.need_finish()) return inner;
  auto work = c10::make_intrusive<CollectiveWork>(getRank(), call.sequence, results,
                                                  std::move(call.buffers));
  end_with(inner, expect_parts(work, 1));
  return work;
}

DelegatingBackend::WorkPtr DelegatingBackend::broadcast(Tensors& tensors,
                                                        const c10d::BroadcastOptions& options) {
  Delegated call = delegate(kBroadcast, tensors);
  Tensors memory = call.buffers.outputs(tensors);
  return follow(std::move(call), tensors, inner_->broadcast(memory, options));
}

DelegatingBackend::WorkPtr DelegatingBackend::allreduce(Tensors& tensors,
                                                        const c10d::AllreduceOptions& options) {
  Delegated call = delegate(kAllReduce, tensors);
  c10d::AllreduceOptions inner = options;
  inner.reduceOp = call.buffers.reduction(options.reduceOp, tensors, getSize());
  Tensors memory = call.buffers.outputs(tensors);
  return follow(std::move(call), tensors, inner_->allreduce(memory, inner));
}

DelegatingBackend::WorkPtr DelegatingBackend::allreduce_sparse(
    Tensors& tensors, const c10d::AllreduceOptions& options) {
  delegate(kAllReduceSparse, tensors);
  return inner_->allreduce_sparse(tensors, options);
}

DelegatingBackend::WorkPtr DelegatingBackend::allreduce_coalesced(
    Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  Delegated call = delegate(kAllReduceCoalesced, tensors);
  c10d::AllreduceCoalescedOptions inner = options;
  inner.reduceOp = call.buffers.reduction(options.reduceOp, tensors, getSize());
  Tensors memory = call.buffers.outputs(tensors);
  return follow(std::move(call), tensors, inner_->allreduce_coalesced(memory, inner));
}

DelegatingBackend::WorkPtr DelegatingBackend::reduce(Tensors& tensors,
                                                     const c10d::ReduceOptions& options) {
  Delegated call = delegate(kReduce, tensors);
  c10d::ReduceOptions inner = options;
  inner.reduceOp = call.buffers.reduction(options.reduceOp, tensors, getSize());
  // Elsewhere the tensor is undefined afterwards, and nothing needs to be brought back.
  const bool is_root = options.rootRank == getRank();
  Tensors memory = is_root ? call.buffers.outputs(tensors) : call.buffers.inputs(tensors);
  return follow(std::move(call), tensors, inner_->reduce(memory, inner));
}

DelegatingBackend::WorkPtr DelegatingBackend::allgather(TensorLists& outputs, Tensors& inputs,
                                                        const c10d::AllgatherOptions& options) {
  Delegated call = delegate(kAllGather, inputs);
  Tensors from = call.buffers.inputs(inputs);
  TensorLists to = outputs_of(call.buffers, outputs);
  return follow(std::move(call), flat(outputs), inner_->allgather(to, from, options));
}

DelegatingBackend::WorkPtr DelegatingBackend::allgather_coalesced(
    TensorLists& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  Delegated call = delegate(kAllGatherCoalesced, inputs);
  Tensors from = call.buffers.inputs(inputs);
  TensorLists to = outputs_of(call.buffers, outputs);
  return follow(std::move(call), flat(outputs), inner_->allgather_coalesced(to, from, options));
}

DelegatingBackend::WorkPtr DelegatingBackend::_allgather_base(
    at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) {
  Delegated call = delegate(kAllGatherSingle, input);
  at::Tensor from = call.buffers.input(input);
  at::Tensor to = call.buffers.output(output);
  return follow(std::move(call), {output}, inner_->_allgather_base(to, from, options));
}

DelegatingBackend::WorkPtr DelegatingBackend::allgather_into_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  Delegated call = delegate(kAllGatherSingleCoalesced, inputs);
  Tensors from = call.buffers.inputs(inputs);
  Tensors to = call.buffers.outputs(outputs);
  return follow(std::move(call), outputs,
                inner_->allgather_into_tensor_coalesced(to, from, options));
}

DelegatingBackend::WorkPtr DelegatingBackend::gather(TensorLists& outputs, Tensors& inputs,
                                                     const c10d::GatherOptions& options) {
  Delegated call = delegate(kGather, inputs);
  Tensors from = call.buffers.inputs(inputs);
  TensorLists to = outputs_of(call.buffers, outputs);
  return follow(std::move(call), flat(outputs), inner_->gather(to, from, options));
}

DelegatingBackend::WorkPtr DelegatingBackend::scatter(Tensors& outputs, TensorLists& inputs,
                                                      const c10d::ScatterOptions& options) {
  check_device(kScatter.operation, first_of(inputs));
  Delegated call = delegate(kScatter, outputs);
  TensorLists from = inputs_of(call.buffers, inputs);
  Tensors to = call.buffers.outputs(outputs);
  return follow(std::move(call), outputs, inner_->scatter(to, from, options));
}

// As Gloo does it, whose own works for it have no Future: all ranks sum everything.
DelegatingBackend::WorkPtr DelegatingBackend::sum_blocks(
    const Name& name, const TensorLists& inputs, const Tensors& outputs,
    const std::vector<std::int64_t>& offsets, const c10d::ReduceScatterOptions& options) {
  Delegated call = delegate(name, flat(inputs));
  c10d::AllreduceOptions inner;
  inner.timeout = options.timeout;
  inner.reduceOp = call.buffers.reduction(options.reduceOp, outputs, getSize());
  Tensors wholes;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    wholes.push_back(call.buffers.joined(inputs[i]));
    call.buffers.output_from(wholes[i], offsets[i], outputs[i]);
  }
  auto work = c10::make_intrusive<CollectiveWork>(getRank(), call.sequence, outputs,
                                                  std::move(call.buffers));
  const EndPart end_part = expect_parts(work, wholes.size());
  for (const at::Tensor& whole : wholes) {
    Tensors one{whole};
    end_with(inner_->allreduce(one, inner), end_part);
  }
  return work;
}

DelegatingBackend::WorkPtr DelegatingBackend::reduce_scatter(
    Tensors& outputs, TensorLists& inputs, const c10d::ReduceScatterOptions& options) {
  TORCH_CHECK_VALUE(inputs.size() == outputs.size(),
                    "reduce_scatter: expected a list of inputs for "
                    "each output, and found ",
                    inputs.size(), " for ", outputs.size());
  std::vector<std::int64_t> offsets;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    TORCH_CHECK_VALUE(inputs[i].size() == static_cast<std::size_t>(getSize()),
                      "reduce_scatter: expected ", getSize(),
                      " tensors, one for each rank, and found ", inputs[i].size());
    check_block("reduce_scatter", inputs[i][getRank()], outputs[i], 1);
    offsets.push_back(0);
    for (int rank = 0; rank < getRank(); ++rank) offsets.back() += inputs[i][rank].numel();
  }
  return sum_blocks(kReduceScatter, inputs, outputs, offsets, options);
}

DelegatingBackend::WorkPtr DelegatingBackend::_reduce_scatter_base(
    at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options) {
  check_block(kReduceScatterSingle.operation, input, output, getSize());
  return sum_blocks(kReduceScatterSingle, {{input}}, {output}, {getRank() * output.numel()},
                    options);
}

DelegatingBackend::WorkPtr DelegatingBackend::reduce_scatter_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& options) {
  TORCH_CHECK_VALUE(inputs.size() == outputs.size(), kReduceScatterSingleCoalesced.operation,
                    ": expected an output for each input, "
                    "and found ",
                    outputs.size(), " for ", inputs.size());
  TensorLists wholes;
  std::vector<std::int64_t> offsets;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    check_block(kReduceScatterSingleCoalesced.operation, inputs[i], outputs[i], getSize());
    wholes.push_back({inputs[i]});
    offsets.push_back(getRank() * outputs[i].numel());
  }
  return sum_blocks(kReduceScatterSingleCoalesced, wholes, outputs, offsets, options);
}

DelegatingBackend::WorkPtr DelegatingBackend::alltoall_base(at::Tensor& output, at::Tensor& input,
                                                            std::vector<std::int64_t>& out_split,
                                                            std::vector<std::int64_t>& in_split,
                                                            const c10d::AllToAllOptions& options) {
  Delegated call = delegate(kAllToAllSingle, input);
  at::Tensor from = call.buffers.input(input);
  at::Tensor to = call.buffers.output(output);
  return follow(std::move(call), {output},
                inner_->alltoall_base(to, from, out_split, in_split, options));
}

DelegatingBackend::WorkPtr DelegatingBackend::alltoall(Tensors& outputs, Tensors& inputs,
                                                       const c10d::AllToAllOptions& options) {
  Delegated call = delegate(kAllToAll, inputs);
  Tensors from = call.buffers.inputs(inputs);
  Tensors to = call.buffers.outputs(outputs);
  return follow(std::move(call), outputs, inner_->alltoall(to, from, options));
}

DelegatingBackend::WorkPtr DelegatingBackend::send(Tensors& tensors, int to_rank, int tag) {
  begin_transfer("send", tensors);
  Tensors memory = Buffers({OpType::SEND, "send"}).inputs(tensors);
  return inner_->send(memory, to_rank, tag);
}

DelegatingBackend::WorkPtr DelegatingBackend::recv(Tensors& tensors, int from_rank, int tag) {
  begin_transfer("recv", tensors);
  Buffers buffers({OpType::RECV, "recv"});
  Tensors memory = buffers.outputs(tensors);
  return ReceivedWork::around(inner_->recv(memory, from_rank, tag), std::move(buffers));
}

DelegatingBackend::WorkPtr DelegatingBackend::recvAnysource(Tensors& tensors, int tag) {
  begin_transfer("recv", tensors);
  Buffers buffers({OpType::RECVANYSOURCE, "recv"});
  Tensors memory = buffers.outputs(tensors);
  return ReceivedWork::around(inner_->recvAnysource(memory, tag), std::move(buffers));
}

// Gloo's barrier waits for Gloo's own earlier works.
DelegatingBackend::WorkPtr DelegatingBackend::barrier(const c10d::BarrierOptions& options) {
  Delegated call = delegate(kBarrier, {});
  const CompletionPool::Mark earlier = completion_->mark();
  auto work = c10::make_intrusive<CollectiveWork>(getRank(), call.sequence, Tensors(),
                                                  std::move(call.buffers));
  // Before Gloo's begins, so that whoever waits for what is on its way waits for it, too.
  const EndPart end_part = expect_parts(work, 2);
  if (!options.asyncOp) completion_->wait_until_settled(earlier);
  end_with(inner_->barrier(options), end_part);
  completion_->when_settled(earlier, [end_part] { end_part(""); });
  return work;
}

void DelegatingBackend::monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) {
  begin("gloo", "monitored_barrier", {});
  completion_->wait_until_settled(completion_->mark());
  inner_->monitoredBarrier(options, wait_all_ranks);
}

void DelegatingBackend::setGroupUid(const std::string& uid) {
  Backend::setGroupUid(uid);
  inner_->setGroupUid(uid);
}

void DelegatingBackend::setTimeout(std::chrono::milliseconds timeout) {
  inner_->setTimeout(timeout);
}

void DelegatingBackend::shutdown() {
  if (!is_forked()) inner_->shutdown();
}

void DelegatingBackend::abort() {
  if (!is_forked()) inner_->abort();
}

}  // namespace atp::pytorch
