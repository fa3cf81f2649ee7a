#include "python/csrc/collective_work.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/core/LegacyTypeDispatch.h>

namespace atp::pytorch {
namespace {

// Views and copies of a leaf that requires gradients are nothing that autograd should see.
using NoAutograd = at::AutoDispatchBelowADInplaceOrView;

at::Tensor plain(const at::Tensor& tensor) {
  const NoAutograd guard;
  return tensor.resolve_conj().resolve_neg().contiguous();
}

}  // namespace

CollectiveWork::CollectiveWork(int rank, const Name& name, std::uint64_t sequence,
                               const std::vector<at::Tensor>& results)
    : Work(rank, name.type, name.title, results),
      operation_(name.operation),
      sequence_(sequence),
      results_(results),
      future_(
          c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()))) {
}

at::Tensor CollectiveWork::input(const at::Tensor& tensor) {
  inputs_.push_back(plain(tensor));
  return inputs_.back();
}

at::Tensor CollectiveWork::output(const at::Tensor& tensor) {
  TORCH_CHECK_VALUE(at::has_internal_overlap(tensor) != at::MemOverlap::Yes, operation_,
                    " writes its result into the tensor, but several elements of this one share "
                    "one memory location (an expanded tensor?); pass tensor.clone()");
  outputs_.push_back({tensor, plain(tensor)});
  return outputs_.back().buffer;
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

void CollectiveWork::write_back() {
  const NoAutograd guard;
  for (Copy& copy : outputs_) {
    if (!copy.buffer.is_same(copy.tensor)) copy.tensor.copy_(copy.buffer);
  }
}

void CollectiveWork::complete() {
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
    future_->markCompleted(c10::IValue(results_));
  }
  finish(failure);
}

}  // namespace atp::pytorch
