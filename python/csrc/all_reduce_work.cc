#include "python/csrc/all_reduce_work.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/core/LegacyTypeDispatch.h>

namespace atp::pytorch {
namespace {

at::Tensor buffer_for(const at::Tensor& tensor) {
  // Views and copies of a leaf that requires gradients are nothing that autograd should see.
  const at::AutoDispatchBelowADInplaceOrView guard;
  TORCH_CHECK_VALUE(at::has_internal_overlap(tensor) != at::MemOverlap::Yes,
                    "all_reduce writes its result into the tensor, but several elements of this "
                    "one share one memory location (an expanded tensor?); pass tensor.clone()");
  return tensor.resolve_neg().contiguous();
}

}  // namespace

AllReduceWork::AllReduceWork(int rank, c10d::OpType type, const char* title, std::uint64_t sequence,
                             const std::vector<at::Tensor>& tensors)
    : Work(rank, type, title, tensors),
      sequence_(sequence),
      tensors_(tensors),
      future_(
          c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()))) {
  for (const at::Tensor& tensor : tensors_) {
    buffers_.push_back(buffer_for(tensor));
    const at::Tensor& buffer = buffers_.back();
    if (buffer.numel() == 0) continue;
    parts_.emplace_back(static_cast<float*>(buffer.data_ptr()),
                        static_cast<std::size_t>(buffer.numel()));
  }
  parts_left_ = parts_.size();
}

bool AllReduceWork::end_part(const std::string& error) {
  if (!error.empty()) {
    const std::lock_guard lock(error_mutex_);
    if (error_.empty()) error_ = error;
  }
  return parts_left_.fetch_sub(1) == 1;
}

void AllReduceWork::write_back() {
  const at::AutoDispatchBelowADInplaceOrView guard;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (!buffers_[i].is_same(tensors_[i])) tensors_[i].copy_(buffers_[i]);
  }
}

void AllReduceWork::complete() {
  std::exception_ptr failure;
  try {
    TORCH_CHECK_WITH(DistBackendError, error_.empty(), error_);
    write_back();
  } catch (...) {
    failure = std::current_exception();
  }
  if (failure) {
    future_->setError(failure);
  } else {
    future_->markCompleted(c10::IValue(tensors_));
  }
  finish(failure);
}

}  // namespace atp::pytorch
