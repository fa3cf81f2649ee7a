#include "python/csrc/process_group.h"

namespace atp::pytorch {

ProcessGroupATP::ProcessGroupATP(int rank, int size, std::chrono::milliseconds timeout)
    : PeersBackend(rank, size, timeout), options_(c10::make_intrusive<Options>("atp", timeout)) {
  init();
}

void ProcessGroupATP::stop() {
  static_cast<void>(close());
  // In this order: the transport ends its operations, then the threads finish them.
  destroy_transport();
  end_threads();
}

void ProcessGroupATP::setTimeout(std::chrono::milliseconds timeout) {
  options_->timeout = timeout;
  PeersBackend::setTimeout(timeout);
}

void ProcessGroupATP::shutdown() {
  if (is_forked() || close()) return;
  // A callback may destroy its own group; it cannot wait for itself.
  if (!completion().on_own_thread()) completion().wait_until_idle();
  leave_transport();
  PeersBackend::shutdown();
}

void ProcessGroupATP::give_up() {
  if (is_forked()) return;
  static_cast<void>(close());
  give_up_transport();
  give_up_peers();
}

void ProcessGroupATP::abort() {
  if (is_forked()) return;
  static_cast<void>(close());
  give_up_peers();
  abort_transport();
  PeersBackend::abort();
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
