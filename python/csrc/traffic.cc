#include "python/csrc/traffic.h"

namespace atp::pytorch {
namespace {

std::string dtype_name(at::TensorList tensors) {
  if (tensors.empty()) return "none";
  return std::string(c10::getDtypeNames(tensors.front().scalar_type()).first);
}

}  // namespace

void Traffic::add(const char* path, const char* operation, at::TensorList tensors) {
  std::uint64_t bytes = 0;
  // numel() of a sparse tensor is the dense tensor's; a separate rule is not worth it.
  for (const at::Tensor& tensor : tensors) bytes += tensor.numel() * tensor.element_size();
  const std::lock_guard lock(mutex_);
  Count& count = counts_[{path, operation, dtype_name(tensors)}];
  ++count.calls;
  count.bytes += bytes;
}

std::vector<TrafficRow> Traffic::rows() const {
  const std::lock_guard lock(mutex_);
  std::vector<TrafficRow> rows;
  for (const auto& [key, count] : counts_) {
    const auto& [path, operation, dtype] = key;
    rows.push_back({path, operation, dtype, count.calls, count.bytes});
  }
  return rows;
}

}  // namespace atp::pytorch
