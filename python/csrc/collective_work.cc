#include "python/csrc/collective_work.h"

#include <chrono>
#include <utility>

#include "atp/base/interrupt.h"
#include "atp/collective/recorder/record_files.h"
#include "python/csrc/signals.h"

namespace atp::pytorch {
namespace {

constexpr std::chrono::milliseconds kForSlowDisk{1000};

// A Future must know the devices of its value in advance.
std::vector<c10::Device> devices_of(const std::vector<at::Tensor>& tensors) {
  std::vector<c10::Device> devices;
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.device().is_cpu()) devices.push_back(tensor.device());
  }
  return devices;
}

}  // namespace

CollectiveWork::CollectiveWork(int rank, std::uint64_t sequence,
                               const std::vector<at::Tensor>& results, Buffers buffers)
    : Work(rank, buffers.name().type, buffers.name().title, results),
      sequence_(sequence),
      results_(results),
      buffers_(std::move(buffers)),
      future_(c10::make_intrusive<c10::ivalue::Future>(
          c10::ListType::create(c10::TensorType::get()), devices_of(results))) {}

// A work that was refused after it had started never settles.
CollectiveWork::~CollectiveWork() {
  if (recorded_ && !settled_ && owner_ == getpid()) recorded_->refused(token_);
}

bool CollectiveWork::expect_parts(std::size_t count) {
  parts_left_ = count;
  return count > 0;
}

bool CollectiveWork::end_part(const std::string& error) {
  if (!error.empty()) {
    const std::lock_guard lock(error_mutex_);
    if (error_.empty()) error_ = error;
  }
  return parts_left_.fetch_sub(1) == 1;
}

void CollectiveWork::settle() {
  record_end();
  try {
    TORCH_CHECK_WITH(DistBackendError, error_.empty(), error_);
    buffers_.finish();
  } catch (...) {
    failure_ = std::current_exception();
  }
  settled_ = true;
}

// A caller that ends its process at the first error finds the files written.
void CollectiveWork::record_end() {
  if (recorded_ == nullptr) return;
  if (error_.empty()) return recorded_->end_completed(token_);
  if (recorded_->end_failed(token_, error_)) wait_for_records(kForSlowDisk);
}

void CollectiveWork::tell() {
  telling_ = std::this_thread::get_id();
  if (failure_) {
    future_->setError(failure_);
  } else {
    future_->markCompleted(c10::IValue(results_));
  }
  telling_ = std::thread::id();
  finish(failure_);
}

bool CollectiveWork::wait(std::chrono::milliseconds timeout) {
  TORCH_CHECK_WITH(DistBackendError, settled_ || owner_ == getpid(), buffers_.name().operation,
                   " was started before this process was forked, and only the parent can wait for "
                   "its end");
  if (telling_ == std::this_thread::get_id()) {
    if (failure_) std::rethrow_exception(failure_);
    return true;
  }
  const auto now = std::chrono::steady_clock::now();
  const bool is_limited = timeout != kNoTimeout;
  {
    std::unique_lock lock(mutex_);
    wait_or_interrupted(cv_, lock,
                        is_limited ? now + timeout : std::chrono::steady_clock::time_point::max(),
                        [this] { return completed_; });
  }
  throw_if_interrupted();
  return Work::wait(is_limited ? std::chrono::milliseconds(1) : timeout);
}

}  // namespace atp::pytorch
