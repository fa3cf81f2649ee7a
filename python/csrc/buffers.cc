#include "python/csrc/buffers.h"

#include <ATen/core/LegacyTypeDispatch.h>

#include <algorithm>
#include <cstring>

#include "python/csrc/argument_checks.h"
#include "python/csrc/overlap.h"

namespace atp::pytorch {
namespace {

using c10d::OpType;
using c10d::ReduceOp;

// Autograd must not record views and copies of a leaf that requires gradients.
using NoAutograd = at::AutoDispatchBelowADInplaceOrView;

// Whether its values are its bytes in the processor's memory, in order.
bool is_plain(const at::Tensor& tensor, at::ScalarType type) {
  return tensor.device().is_cpu() && tensor.scalar_type() == type && is_dense(tensor) &&
         tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg();
}

at::Tensor plain(const at::Tensor& tensor) {
  const NoAutograd guard;
  return on_cpu(tensor.resolve_conj().resolve_neg().contiguous());
}

// Whether the tensor that gets the result holds the input first.
bool is_in_place(OpType type) {
  return type == OpType::ALLREDUCE || type == OpType::ALLREDUCE_COALESCED || type == OpType::REDUCE;
}

bool is_reduction(OpType type) {
  return is_in_place(type) || type == OpType::REDUCE_SCATTER ||
         type == OpType::_REDUCE_SCATTER_BASE;
}

bool is_repeated(const at::Tensor& tensor, std::int64_t dimension) {
  return tensor.stride(dimension) == 0 && tensor.size(dimension) > 1;
}

bool is_expanded(const at::Tensor& tensor) {
  for (std::int64_t d = 0; d < tensor.dim(); ++d) {
    if (is_repeated(tensor, d)) return true;
  }
  return false;
}

// The first of the elements that `like`, an expanded tensor, keeps in one place.
at::Tensor first_of_repeated(at::Tensor tensor, const at::Tensor& like) {
  for (std::int64_t d = 0; d < like.dim(); ++d) {
    if (is_repeated(like, d)) tensor = tensor.narrow(d, 0, 1);
  }
  return tensor;
}

double factor_of(const ReduceOp& op) {
  const auto* supplement = dynamic_cast<const c10d::PreMulSumSupplement*>(op.supplement_.get());
  TORCH_CHECK_VALUE(supplement != nullptr, "PREMUL_SUM without a factor");
  return supplement->tensor_factor.defined() ? supplement->tensor_factor.item<double>()
                                             : supplement->double_factor;
}

// Some milliseconds.
constexpr std::int64_t kConvertedAtOnce = 4 << 20;
constexpr std::chrono::milliseconds kMostOfALook{200};

bool has_sum(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
    case at::kDouble:
    case at::kHalf:
    case at::kBFloat16:
    case at::kByte:
    case at::kChar:
    case at::kShort:
    case at::kInt:
    case at::kLong:
    case at::kBool:
    case at::kComplexFloat:
    case at::kComplexDouble: return true;
    default: return false;
  }
}

}  // namespace

std::string conversion_of(at::ScalarType type) {
  if (at::isComplexType(type)) return ".to(torch.complex64)";
  if (at::isFloatingType(type)) return ".float()";
  const bool is_wide = type == at::kUInt32 || type == at::kUInt64;
  return is_wide ? ".to(torch.int64)" : ".to(torch.int32)";
}

// Pinned memory, so that the device copies at full speed; a device of torch's PrivateUse1 need not
// have any. The copy waits for the work that the caller has queued on the device's current stream:
// the values are those that the caller sees.
at::Tensor on_cpu(const at::Tensor& tensor) {
  if (tensor.device().is_cpu()) return tensor;
  const NoAutograd guard;
  const bool pins = !tensor.is_privateuseone();
  at::Tensor copy =
      at::empty(tensor.sizes(), tensor.options().device(at::kCPU).pinned_memory(pins));
  copy.copy_(tensor);
  return copy;
}

ReduceOp Buffers::reduction(const ReduceOp& asked, at::TensorList tensors, int ranks) {
  const bool averages = asked.op_ == ReduceOp::AVG;
  const bool scales = asked.op_ == ReduceOp::PREMUL_SUM;
  if (tensors.empty() || !(averages || scales || asked.op_ == ReduceOp::SUM)) return asked;
  const at::ScalarType type = tensors.front().scalar_type();
  TORCH_CHECK_TYPE(has_sum(type), name_.operation, ": atp cannot sum tensors of ", type,
                   "; expected a floating-point or complex type, bool, uint8, int8, int16, int32 "
                   "or int64: convert it with ",
                   conversion_of(type));
  const bool is_integral = at::isIntegralType(type, /*includeBool=*/true);
  TORCH_CHECK_TYPE(!averages || type != at::kBool, name_.operation,
                   ": bool has no average; convert the tensor with .float() or .int(), or use "
                   "ReduceOp.SUM, which is a logical or");
  TORCH_CHECK_TYPE(!scales || !is_integral, name_.operation,
                   ": PREMUL_SUM multiplies by a fraction, so it expects a floating-point or "
                   "complex type, and this tensor is of ",
                   type, "; convert it with .float(), or use ReduceOp.SUM");
  if (averages && is_integral) {
    divisor_ = ranks;
    return ReduceOp::SUM;
  }
  if (scales) {
    factor_ = factor_of(asked);
    return ReduceOp::SUM;
  }
  return asked;
}

at::Tensor Buffers::carried(const at::Tensor& tensor) const {
  const NoAutograd guard;
  const at::Tensor buffer = plain(tensor);
  if (!carrier_) return buffer;
  if (!convert_within_ || buffer.numel() <= kConvertedAtOnce) return buffer.to(*carrier_);
  at::Tensor converted = at::empty(buffer.sizes(), buffer.options().dtype(*carrier_));
  const at::Tensor from = buffer.view({-1});
  const at::Tensor to = converted.view({-1});
  for (std::int64_t done = 0; done < from.numel(); done += kConvertedAtOnce) {
    if (spent() >= *convert_within_) break;
    const std::int64_t count = std::min(kConvertedAtOnce, from.numel() - done);
    to.narrow(0, done, count).copy_(from.narrow(0, done, count));
  }
  return converted;
}

void Buffers::convert_within(std::chrono::milliseconds timeout) {
  if (timeout.count() == 0) return;  // the default, which is not known here
  convert_within_ = timeout;
}

std::chrono::milliseconds Buffers::spent() const {
  const auto now = std::chrono::steady_clock::now();
  spent_ += std::min<std::chrono::nanoseconds>(now - std::exchange(looked_at_, now), kMostOfALook);
  return std::chrono::duration_cast<std::chrono::milliseconds>(spent_);
}

at::Tensor Buffers::input(const at::Tensor& tensor) {
  check_device(name_.operation, tensor);
  if (!is_dense(tensor)) return tensor;
  inputs_.push_back(carried(tensor));
  if (factor_) {
    const NoAutograd guard;
    inputs_.back() = inputs_.back() * *factor_;
  }
  return inputs_.back();
}

void Buffers::check_device(const char* operation, const at::Tensor& tensor) {
  TORCH_CHECK_VALUE(
      !tensor.is_meta(), operation,
      ": expected a tensor with values, and this one is on meta, which has none; "
      "create it on the CPU or on a GPU, with torch.empty_like(tensor, device=\"cpu\") "
      "for example");
}

void Buffers::check_output(const at::Tensor& output) const {
  check_device(name_.operation, output);
  if (!is_dense(output)) return;
  TORCH_CHECK_VALUE(!elements_overlap(first_of_repeated(output, output)), name_.operation,
                    " writes its result into the tensor, but several elements of this one share "
                    "one memory location; pass tensor.clone()");
}

at::Tensor Buffers::output(const at::Tensor& tensor) {
  check_output(tensor);
  if (!is_dense(tensor)) return tensor;
  outputs_.push_back({tensor, carried(tensor)});
  const at::Tensor& buffer = outputs_.back().buffer;
  if (factor_ && is_in_place(name_.type)) {
    const NoAutograd guard;
    buffer.mul_(*factor_);
  }
  return buffer;
}

std::vector<at::Tensor> Buffers::inputs(at::TensorList tensors) {
  std::vector<at::Tensor> buffers;
  for (const at::Tensor& tensor : tensors) buffers.push_back(input(tensor));
  return buffers;
}

std::vector<at::Tensor> Buffers::outputs(at::TensorList tensors) {
  // Check all tensors before any is scaled in place.
  for (const at::Tensor& tensor : tensors) check_output(tensor);
  std::vector<at::Tensor> buffers;
  for (const at::Tensor& tensor : tensors) buffers.push_back(output(tensor));
  return buffers;
}

at::Tensor Buffers::joined(at::TensorList inputs) {
  const NoAutograd guard;
  for (const at::Tensor& input : inputs) check_device(name_.operation, input);
  at::Tensor joined = copied_side_by_side(inputs);
  if (!joined.defined()) {
    std::vector<at::Tensor> flat;
    for (const at::Tensor& input : inputs) flat.push_back(carried(input).view({-1}));
    joined = at::cat(flat);
  }
  if (factor_) joined.mul_(*factor_);
  return joined;
}

// Undefined if a tensor's values are not its bytes. For many small tensors sent as one, torch's
// views and copies would take longer than the sum.
at::Tensor Buffers::copied_side_by_side(at::TensorList inputs) const {
  if (inputs.empty()) return {};
  const at::ScalarType type = carrier_.value_or(inputs.front().scalar_type());
  std::int64_t values = 0;
  for (const at::Tensor& input : inputs) {
    if (!is_plain(input, type)) return {};
    values += input.numel();
  }
  at::Tensor joined = at::empty({values}, inputs.front().options());
  auto* to = static_cast<std::byte*>(joined.mutable_data_ptr());
  for (const at::Tensor& input : inputs) {
    if (input.nbytes() > 0) std::memcpy(to, input.const_data_ptr(), input.nbytes());
    to += input.nbytes();
  }
  return joined;
}

at::Tensor Buffers::joined_outputs(at::TensorList tensors) {
  for (const at::Tensor& tensor : tensors) check_output(tensor);
  const at::Tensor whole = joined(tensors);
  std::int64_t offset = 0;
  for (const at::Tensor& tensor : tensors) {
    output_from(whole, offset, tensor);
    offset += tensor.numel();
  }
  return whole;
}

void Buffers::output_from(const at::Tensor& joined, std::int64_t offset, const at::Tensor& output) {
  check_output(output);
  outputs_.push_back({output, joined, offset});
}

void Buffers::finish() {
  const NoAutograd guard;
  for (const Output& output : outputs_) {
    if (copy_bytes(output)) continue;
    const at::Tensor result = result_of(output);
    if (!result.is_same(output.tensor)) write_back(output.tensor, result);
  }
  if (last_step_) last_step_();
}

// The reverse of copied_side_by_side().
bool Buffers::copy_bytes(const Output& output) const {
  const at::Tensor& tensor = output.tensor;
  const bool as_it_is = !divisor_ && is_plain(tensor, output.buffer.scalar_type());
  if (output.offset == kWhole || !as_it_is) return false;
  const auto* from = static_cast<const std::byte*>(output.buffer.const_data_ptr()) +
                     static_cast<std::size_t>(output.offset) * tensor.element_size();
  if (tensor.nbytes() > 0) std::memcpy(tensor.mutable_data_ptr(), from, tensor.nbytes());
  return true;
}

// In the tensor's own type; the quotient of integers has that type, too.
at::Tensor Buffers::result_of(const Output& output) const {
  const at::Tensor& tensor = output.tensor;
  const at::Tensor buffer =
      output.offset == kWhole
          ? output.buffer
          : output.buffer.narrow(0, output.offset, tensor.numel()).view(tensor.sizes());
  const at::Tensor result = buffer.to(tensor.scalar_type());
  if (divisor_) result.div_(*divisor_, "trunc");
  return result;
}

void Buffers::write_back(const at::Tensor& tensor, const at::Tensor& result) const {
  if (!is_expanded(tensor)) {
    tensor.copy_(result);
    return;
  }
  const at::Tensor first = first_of_repeated(result, tensor);
  // Sums of the same values may differ in their last bits, as a ring adds each of its blocks in a
  // different order.
  if (!is_reduction(name_.type)) {
    const at::Tensor repeated = first.expand_as(result).contiguous();
    TORCH_CHECK_VALUE(at::equal(repeated.view(at::kByte), result.view(at::kByte)), name_.operation,
                      ": the elements of an expanded tensor share one memory location, and the "
                      "result has different values for them; pass tensor.clone()");
  }
  first_of_repeated(tensor, tensor).copy_(first);
}

}  // namespace atp::pytorch
