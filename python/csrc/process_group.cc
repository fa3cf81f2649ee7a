#include "python/csrc/process_group.h"

#include <algorithm>

#include "python/csrc/signals.h"

namespace atp::pytorch {

ProcessGroupATP::ProcessGroupATP(int rank, int size, std::chrono::milliseconds timeout)
    : PeersBackend(rank, size, timeout),
      options_(c10::make_intrusive<GroupOptions>("atp", timeout)) {
  init();
}

void ProcessGroupATP::stop() {
  static_cast<void>(close());
  // In this order: the transport ends its operations, then the threads finish them.
  destroy_transport();
  end_threads();
}

#ifdef C10D_BACKEND_HAS_RECONFIGURE
ProcessGroupATP::WorkPtr ProcessGroupATP::reconfigure(const c10d::ReconfigureOptions& /*options*/) {
  TORCH_CHECK(false,
              "this group's ranks cannot change; create the default group with "
              "init_process_group(\"atp\", enable_reconfigure=True)");
}
#endif

void ProcessGroupATP::setTimeout(std::chrono::milliseconds timeout) {
  options_->timeout = timeout;
  PeersBackend::setTimeout(timeout);
}

c10::intrusive_ptr<c10d::Backend> ProcessGroupATP::split(
    const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
    const c10::intrusive_ptr<Options>& options) {
  check_open("split_group");
  const auto own = std::find(ranks.begin(), ranks.end(), getRank());
  if (own == ranks.end()) return nullptr;
  const std::string& name = options->group_name;
  {
    const std::lock_guard lock(split_mutex_);
    auto last = split_ && split_name_ == name ? split_->lock() : nullptr;
    if (last != nullptr) return last;
  }
  // Without the lock: this meets the other ranks, in Python.
  auto made =
      make_split_(store, ranks, static_cast<int>(own - ranks.begin()), name, options->timeout);
  const std::lock_guard lock(split_mutex_);
  split_.emplace(made);
  split_name_ = name;
  return made;
}

void ProcessGroupATP::shutdown() {
  if (is_forked() || close()) return;
  // A callback may destroy its own group; it cannot wait for itself.
  if (!completion().on_own_thread()) completion().wait_until_idle();
  throw_if_interrupted();
  share_failure();
  leave_transport();
  PeersBackend::shutdown();
}

void ProcessGroupATP::give_up() {
  if (is_forked()) return;
  static_cast<void>(close());
  share_failure();
  give_up_transport();
  give_up_peers();
}

void ProcessGroupATP::abort() {
  if (is_forked()) return;
  static_cast<void>(close());
  share_failure();
  give_up_peers();
  abort_transport();
  PeersBackend::abort();
}

std::optional<WaitedForRanks> ProcessGroupATP::waited_for() const {
  const auto in_transport = transport_waited_for();
  const auto at_peers = peers_waited_for();
  if (!in_transport || !at_peers) return in_transport ? in_transport : at_peers;
  return at_peers->waited > in_transport->waited ? at_peers : in_transport;
}

std::map<Rank, Duration> ProcessGroupATP::waits() const {
  std::map<Rank, Duration> waits = transport_waits();
  for (const auto& [rank, waited] : peers_waits()) waits[rank] += waited;
  return waits;
}

c10d::ErrorType ProcessGroupATP::getError() {
  if (is_forked()) return c10d::ErrorType::COMM_ERROR;
  FailureKind found = transport_failure();
  if (found == FailureKind::kNone) found = peers_failure();
  FailureKind first = FailureKind::kNone;
  if (failure_.compare_exchange_strong(first, found)) first = found;
  switch (first) {
    case FailureKind::kNone: break;
    case FailureKind::kBroken: return c10d::ErrorType::COMM_ERROR;
    case FailureKind::kTimeout: return c10d::ErrorType::TIMEOUT;
    case FailureKind::kReported: return c10d::ErrorType::REMOTE_ERROR;
  }
  return c10d::ErrorType::SUCCESS;
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
