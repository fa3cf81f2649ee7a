#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <utility>
#include <vector>

// The memory that one collective really reads and writes, and what is done to it before and after.
//
// A contiguous tensor is used where it is. Any other has a contiguous copy, which is written back
// at the end where it holds a result: strides are a rank's own affair, so they must not decide the
// path, nor in which order elements meet those of other ranks. A type that what carries the tensor
// does not know travels in a wider one.

namespace atp::pytorch {

class Buffers {
 public:
  struct Name {
    c10d::OpType type = c10d::OpType::UNKNOWN;
    const char* operation = "";  // as in messages
    const char* title = "";      // as in profiles
  };

  explicit Buffers(const Name& name) : name_(name) {}

  // The memory that others read and write is this one's.
  static void check_device(const char* operation, const at::Tensor& tensor);

  // The values travel in this type. What comes back is narrowed to the tensors' own: integers keep
  // the low bits, as a sum in the narrow type would, and floats are rounded once.
  // Before the first input() or output().
  void carry_as(at::ScalarType type) { carrier_ = type; }

  // The reduction for who only adds: SUM where it is a sum with something done before (PREMUL_SUM)
  // or after (AVG of integers, which divides toward zero). Refuses what has no sum or no average.
  // Before the first input() or output().
  c10d::ReduceOp reduction(const c10d::ReduceOp& asked, at::TensorList tensors, int ranks);

  // Contiguous memory with the tensor's values, alive as long as this object. That of an output is
  // written back.
  at::Tensor input(const at::Tensor& tensor);
  at::Tensor output(const at::Tensor& tensor);
  std::vector<at::Tensor> inputs(at::TensorList tensors);
  // Is alive as long as this object, too.
  void keep(const at::Tensor& memory) { inputs_.push_back(memory); }
  std::vector<at::Tensor> outputs(at::TensorList tensors);

  // The values of all these inputs one after the other, and an output that gets, at the end, those
  // of them from `offset` on.
  at::Tensor joined(at::TensorList inputs);
  // Likewise of tensors that get their results back.
  at::Tensor joined_outputs(at::TensorList tensors);
  void output_from(const at::Tensor& joined, std::int64_t offset, const at::Tensor& output);

  // Of what is no dense tensor: what finish() does at last.
  void set_last_step(std::function<void()> step) { last_step_ = std::move(step); }
  // The outputs hold the result of the collective: completes it and writes it back.
  void finish();

  const Name& name() const { return name_; }

 private:
  static constexpr std::int64_t kWhole = -1;
  struct Output {
    at::Tensor tensor;
    at::Tensor buffer;  // the tensor itself, or its contiguous copy in the type that travels
    std::int64_t offset = kWhole;  // where its values begin in what several outputs share
  };
  at::Tensor copied_side_by_side(at::TensorList inputs) const;
  bool copy_bytes(const Output& output) const;
  void check_output(const at::Tensor& output) const;
  at::Tensor carried(const at::Tensor& tensor) const;
  at::Tensor result_of(const Output& output) const;
  void write_back(const at::Tensor& tensor, const at::Tensor& result) const;

  Name name_;
  std::optional<double> factor_;         // of the inputs
  std::optional<std::int64_t> divisor_;  // of the results
  std::optional<at::ScalarType> carrier_;
  std::vector<at::Tensor> inputs_;  // kept alive
  std::vector<Output> outputs_;
  std::function<void()> last_step_;
};

}  // namespace atp::pytorch
