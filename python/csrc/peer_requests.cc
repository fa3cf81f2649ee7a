#include "python/csrc/peer_requests.h"

#include <cctype>

#include "python/csrc/argument_checks.h"

// Maps c10d's reductions and tensor types to those of atp/collective/peer.

namespace atp::pytorch {
namespace {

using c10d::ReduceOp;

ElementReduction named(ReduceOp::RedOpType op) {
  switch (op) {
    case ReduceOp::SUM: return ElementReduction::kSum;
    case ReduceOp::AVG: return ElementReduction::kAverage;
    case ReduceOp::PRODUCT: return ElementReduction::kProduct;
    case ReduceOp::MIN: return ElementReduction::kMin;
    case ReduceOp::MAX: return ElementReduction::kMax;
    case ReduceOp::BAND: return ElementReduction::kAnd;
    case ReduceOp::BOR: return ElementReduction::kOr;
    case ReduceOp::BXOR: return ElementReduction::kXor;
    default: return ElementReduction::kNone;
  }
}

}  // namespace

const char* dtype_name(at::ScalarType type) {
  switch (type) {
    case at::kByte: return "uint8";
    case at::kChar: return "int8";
    case at::kShort: return "int16";
    case at::kInt: return "int32";
    case at::kLong: return "int64";
    case at::kHalf: return "float16";
    case at::kBFloat16: return "bfloat16";
    case at::kFloat: return "float32";
    case at::kDouble: return "float64";
    case at::kBool: return "bool";
    case at::kComplexFloat: return "complex64";
    case at::kComplexDouble: return "complex128";
    default: return c10::toString(type);
  }
}

// c10's names of other types differ from torch's in their first letter.
std::string type_name(std::uint8_t type) {
  std::string name = dtype_name(static_cast<at::ScalarType>(type));
  name[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(name[0])));
  return name;
}

ElementKind kind_of(at::ScalarType type) {
  switch (type) {
    case at::kBool: return ElementKind::kBool;
    case at::kByte: return ElementKind::kUint8;
    case at::kChar: return ElementKind::kInt8;
    case at::kShort: return ElementKind::kInt16;
    case at::kInt: return ElementKind::kInt32;
    case at::kLong: return ElementKind::kInt64;
    case at::kHalf: return ElementKind::kFloat16;
    case at::kBFloat16: return ElementKind::kBFloat16;
    case at::kFloat: return ElementKind::kFloat32;
    case at::kDouble: return ElementKind::kFloat64;
    case at::kComplexFloat: return ElementKind::kComplex64;
    case at::kComplexDouble: return ElementKind::kComplex128;
    default: return ElementKind::kByte;
  }
}

// Floats have no bits, and complex numbers no order.
std::string advice(at::ScalarType type, ElementReduction reduction) {
  if (at::isComplexType(type)) return "";
  const bool lacks_bits = at::isFloatingType(type) && !can_reduce(ElementKind::kFloat32, reduction);
  return "; convert it with " + (lacks_bits ? ".to(torch.int32)" : conversion_of(type));
}

ElementReduction reduction_of(const Buffers::Name& name, const ReduceOp& op, at::ScalarType type) {
  const ElementReduction reduction = named(op.op_);
  const bool possible =
      reduction != ElementReduction::kNone && can_reduce(kind_of(type), reduction);
  TORCH_CHECK_TYPE(possible, name.operation, ": there is no ", to_string(reduction),
                   " of tensors of ", type_name(static_cast<std::uint8_t>(type)),
                   advice(type, reduction));
  return reduction;
}

CollectiveRequest request_of(Collective call, at::ScalarType type) {
  CollectiveRequest request;
  request.call = call;
  request.kind = kind_of(type);
  request.type = static_cast<std::uint8_t>(type);
  return request;
}

Bytes memory_of(const Buffers::Name& name, const at::Tensor& buffer) {
  TORCH_CHECK_TYPE(is_dense(buffer), name.operation,
                   ": expected dense tensors, and this one's layout is ", buffer.layout(),
                   "; convert it with .to_dense()");
  return {static_cast<std::byte*>(buffer.data_ptr()), static_cast<std::size_t>(buffer.nbytes())};
}

std::vector<Bytes> blocks_of(const Buffers::Name& name, const at::Tensor& buffer, std::size_t ranks,
                             const std::vector<std::int64_t>& lengths) {
  Bytes left = memory_of(name, buffer);
  const std::size_t alike = left.size() / ranks;
  std::vector<Bytes> blocks;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const std::size_t bytes =
        lengths.empty() ? alike : static_cast<std::size_t>(lengths[rank]) * buffer.element_size();
    blocks.push_back(left.first(bytes));
    left = left.subspan(bytes);
  }
  return blocks;
}

}  // namespace atp::pytorch
