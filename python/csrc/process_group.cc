#include "python/csrc/process_group.h"

namespace atp::pytorch {

ProcessGroupATP::ProcessGroupATP(int rank, int size, std::chrono::milliseconds timeout,
                                 c10::intrusive_ptr<c10d::Backend> gloo)
    : DelegatingBackend(rank, size, std::move(gloo)),
      options_(c10::make_intrusive<Options>("atp", timeout)),
      timeout_(timeout),
      completion_(std::in_place) {
  init();
}

void ProcessGroupATP::stop() {
  closed_ = true;
  // In this order: the transport ends its operations, the thread completes them.
  destroy_transport();
  completion_.reset();
}

c10::intrusive_ptr<CollectiveWork> ProcessGroupATP::begin_work(
    const char* path, const CollectiveWork::Name& name, at::TensorList inputs,
    const std::vector<at::Tensor>& results) {
  TORCH_CHECK_WITH(DistBackendError, !closed_, name.operation,
                   ": this rank has left the group (it was destroyed or aborted)");
  const std::uint64_t sequence = begin(path, name.operation, inputs);
  return c10::make_intrusive<CollectiveWork>(getRank(), name, sequence, results);
}

std::function<void(const std::string&)> ProcessGroupATP::expect_parts(
    const c10::intrusive_ptr<CollectiveWork>& work, std::size_t count) {
  auto queue = completion_->queue();
  queue->expect();
  if (!work->expect_parts(count)) queue->push(work);
  return [work, queue](const std::string& error) {
    if (work->end_part(error)) queue->push(work);
  };
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
  if (closed_.exchange(true)) return;
  // A callback may destroy its own group; it cannot wait for itself.
  if (!completion_->is_this_thread()) completion_->queue()->wait_until_idle();
  leave_transport();
  DelegatingBackend::shutdown();
}

void ProcessGroupATP::abort() {
  closed_ = true;
  abort_transport();
  DelegatingBackend::abort();
}

Reduction reduction_of(const c10d::ReduceOp& op) {
  return op.op_ == c10d::ReduceOp::AVG ? Reduction::kAverage : Reduction::kSum;
}

bool is_linear(const c10d::ReduceOp& op) {
  return op.op_ == c10d::ReduceOp::SUM || op.op_ == c10d::ReduceOp::AVG;
}

}  // namespace atp::pytorch
