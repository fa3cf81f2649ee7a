#include "python/csrc/process_group.h"

#include <algorithm>
#include <string>
#include <utility>

namespace atp::pytorch {
namespace {

bool is_dense_float32(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kFloat && tensor.layout() == at::kStrided;
}

bool is_linear(const c10d::ReduceOp& op) {
  // Compared by type: a premultiplied sum is an operation of its own.
  return op.op_ == c10d::ReduceOp::SUM || op.op_ == c10d::ReduceOp::AVG;
}

const char* title_of(c10d::OpType type) {
  return type == c10d::OpType::ALLREDUCE ? "atp:all_reduce" : "atp:all_reduce_coalesced";
}

}  // namespace

ProcessGroupATP::ProcessGroupATP(int rank, int size, std::chrono::milliseconds timeout,
                                 c10::intrusive_ptr<c10d::Backend> gloo,
                                 std::unique_ptr<Communicator> communicator)
    : DelegatingBackend(rank, size, std::move(gloo)),
      options_(c10::make_intrusive<Options>("atp", timeout)),
      timeout_(timeout),
      completion_(std::in_place),
      communicator_(std::move(communicator)) {
  init();
}

ProcessGroupATP::~ProcessGroupATP() { stop(); }

void ProcessGroupATP::stop() {
  closed_ = true;
  // In this order: the Communicator ends its operations, the thread completes them.
  communicator_.reset();
  completion_.reset();
}

bool ProcessGroupATP::sums(const Tensors& tensors, const c10d::AllreduceOptions& options) const {
  if (communicator_ == nullptr || !is_linear(options.reduceOp)) return false;
  const bool has_values = std::any_of(tensors.begin(), tensors.end(),
                                      [](const at::Tensor& tensor) { return tensor.numel() > 0; });
  return has_values && std::all_of(tensors.begin(), tensors.end(), is_dense_float32);
}

c10::intrusive_ptr<c10d::Work> ProcessGroupATP::sum(c10d::OpType type, const char* operation,
                                                    const Tensors& tensors,
                                                    const c10d::AllreduceOptions& options) {
  TORCH_CHECK_WITH(DistBackendError, !closed_, operation,
                   ": this rank has left the group (it was destroyed or aborted)");
  const std::uint64_t sequence = begin("atp", operation, tensors);
  auto work =
      c10::make_intrusive<AllReduceWork>(getRank(), type, title_of(type), sequence, tensors);

  AllReduceOptions each;
  each.reduction =
      options.reduceOp.op_ == c10d::ReduceOp::AVG ? Reduction::kAverage : Reduction::kSum;
  each.timeout = options.timeout == c10d::kUnsetTimeout ? timeout_.load() : options.timeout;
  each.on_done = [work, queue = completion_->queue()](const Status& status) {
    if (work->end_part(status.ok() ? "" : status.error().message)) queue->push(work);
  };
  completion_->queue()->expect();
  for (const std::span<float>& part : work->parts()) communicator_->all_reduce(part, each);
  return work;
}

c10::intrusive_ptr<c10d::Work> ProcessGroupATP::allreduce(Tensors& tensors,
                                                          const c10d::AllreduceOptions& options) {
  if (!sums(tensors, options)) return DelegatingBackend::allreduce(tensors, options);
  return sum(c10d::OpType::ALLREDUCE, "all_reduce", tensors, options);
}

c10::intrusive_ptr<c10d::Work> ProcessGroupATP::allreduce_coalesced(
    Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  if (!sums(tensors, options)) return DelegatingBackend::allreduce_coalesced(tensors, options);
  return sum(c10d::OpType::ALLREDUCE_COALESCED, "all_reduce_coalesced", tensors, options);
}

void ProcessGroupATP::setTimeout(std::chrono::milliseconds timeout) {
  timeout_ = timeout;
  options_->timeout = timeout;
  DelegatingBackend::setTimeout(timeout);
}

void ProcessGroupATP::shutdown() {
  if (closed_.exchange(true)) return;
  if (communicator_ != nullptr) {
    // A callback may destroy its own group; it cannot wait for itself.
    if (!completion_->is_this_thread()) completion_->queue()->wait_until_idle();
    // A server that does not acknowledge the leaving ends nothing but its own lease.
    static_cast<void>(communicator_->shutdown());
  }
  DelegatingBackend::shutdown();
}

void ProcessGroupATP::abort() {
  closed_ = true;
  if (communicator_ != nullptr) communicator_->abort("the process group was aborted");
  DelegatingBackend::abort();
}

CounterList ProcessGroupATP::counters() const {
  return communicator_ == nullptr ? CounterList() : communicator_->counters();
}

std::size_t ProcessGroupATP::values_per_fragment() const {
  return communicator_ == nullptr ? 0 : communicator_->values_per_fragment();
}

}  // namespace atp::pytorch
