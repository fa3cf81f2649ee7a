#include "python/csrc/process_group.h"

namespace atp::pytorch {

ProcessGroupATP::ProcessGroupATP(int rank, int size, std::chrono::milliseconds timeout,
                                 c10::intrusive_ptr<c10d::Backend> gloo)
    : DelegatingBackend(rank, size, std::move(gloo)),
      options_(c10::make_intrusive<Options>("atp", timeout)),
      timeout_(timeout) {
  init();
}

void ProcessGroupATP::stop() {
  closed_ = true;
  // In this order: the transport ends its operations, the threads finish them.
  destroy_transport();
  end_threads();
}

c10::intrusive_ptr<CollectiveWork> ProcessGroupATP::begin_work(
    const char* path, const Buffers::Name& name, at::TensorList inputs,
    const std::vector<at::Tensor>& results) {
  TORCH_CHECK_WITH(DistBackendError, !closed_, name.operation,
                   ": this rank has left the group (it was destroyed or aborted)");
  const std::uint64_t sequence = begin(path, name.operation, inputs);
  return c10::make_intrusive<CollectiveWork>(getRank(), sequence, results, Buffers(name));
}

std::chrono::milliseconds ProcessGroupATP::timeout_of(std::chrono::milliseconds asked_for) const {
  return asked_for == c10d::kUnsetTimeout ? timeout_.load() : asked_for;
}

void ProcessGroupATP::setTimeout(std::chrono::milliseconds timeout) {
  timeout_ = timeout;
  options_->timeout = timeout;
  DelegatingBackend::setTimeout(timeout);
}

void ProcessGroupATP::shutdown() {
  if (is_forked() || closed_.exchange(true)) return;
  // A callback may destroy its own group; it cannot wait for itself.
  if (!completion().on_own_thread()) completion().wait_until_idle();
  leave_transport();
  DelegatingBackend::shutdown();
}

void ProcessGroupATP::give_up() {
  if (is_forked()) return;
  closed_ = true;
  give_up_transport();
}

void ProcessGroupATP::abort() {
  if (is_forked()) return;
  closed_ = true;
  abort_transport();
  DelegatingBackend::abort();
}

bool is_linear(const c10d::ReduceOp& op) {
  return op.op_ == c10d::ReduceOp::SUM || op.op_ == c10d::ReduceOp::AVG ||
         op.op_ == c10d::ReduceOp::PREMUL_SUM;
}

std::vector<std::size_t> lengths_of(at::TensorList tensors) {
  std::vector<std::size_t> lengths;
  for (const at::Tensor& tensor : tensors) {
    lengths.push_back(static_cast<std::size_t>(tensor.numel()));
  }
  return lengths;
}

at::Tensor one_buffer(Buffers& buffers, const std::vector<at::Tensor>& tensors) {
  return tensors.size() == 1 ? buffers.output(tensors.front()) : buffers.joined_outputs(tensors);
}

Reduction reduction_of(const c10d::ReduceOp& op, const std::vector<at::Tensor>& tensors,
                       Buffers& buffers, int ranks) {
  const c10d::ReduceOp sum = buffers.reduction(op, tensors, ranks);
  return sum.op_ == c10d::ReduceOp::AVG ? Reduction::kAverage : Reduction::kSum;
}

}  // namespace atp::pytorch
