#pragma once

#include <ATen/ATen.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <utility>
#include <vector>

// The memory that one collective actually reads and writes, and its conversions before and after.
//
// A contiguous tensor on the CPU is used in place. Any other gets a contiguous copy there, which is
// written back at the end if it holds a result: strides and devices are local to a rank, so they
// must decide neither the path nor the order in which elements meet those of other ranks. A type
// that the transport does not support is sent as a wider one.
//
// The copy from a device waits for the caller's current stream, and the copy back is complete when
// the operation is. So the caller's thread waits for its GPU, but needs to order no streams.

namespace atp::pytorch {

// The tensor itself, or a contiguous copy of one that a device holds.
at::Tensor on_cpu(const at::Tensor& tensor);

// ".float()": makes of a tensor that cannot be summed one that can, and keeps its values.
std::string conversion_of(at::ScalarType type);

class Buffers {
 public:
  struct Name {
    c10d::OpType type = c10d::OpType::UNKNOWN;
    const char* operation = "";  // as in messages
    const char* title = "";      // as in profiles
  };

  explicit Buffers(const Name& name) : name_(name) {}

  // Refuses tensors without values.
  static void check_device(const char* operation, const at::Tensor& tensor);

  // Sends the values as this type. Results are narrowed to the tensors' own type: integers keep the
  // low bits, as a sum in the narrow type would, and floats are rounded once.
  // Before the first input() or output().
  void carry_as(at::ScalarType type) { carrier_ = type; }

  // Stops converting values after this time, as large tensors take long; the operation must then
  // not begin. Before the first input() or output().
  void convert_within(std::chrono::milliseconds timeout);
  // How long the call has taken so far. Less if the process was stopped meanwhile: like a
  // RunningClock, it takes only a part of a long time between two looks.
  std::chrono::milliseconds spent() const;

  // The reduction for a transport that only adds: SUM for a sum with a step before it (PREMUL_SUM)
  // or after it (AVG of integers, which divides toward zero). Refuses types without a sum or an
  // average. Before the first input() or output().
  c10d::ReduceOp reduction(const c10d::ReduceOp& asked, at::TensorList tensors, int ranks);

  // Contiguous memory with the tensor's values, alive for as long as this object. An output's
  // memory is written back.
  at::Tensor input(const at::Tensor& tensor);
  at::Tensor output(const at::Tensor& tensor);
  std::vector<at::Tensor> inputs(at::TensorList tensors);
  // Keeps the memory alive for as long as this object.
  void keep(const at::Tensor& memory) { inputs_.push_back(memory); }
  std::vector<at::Tensor> outputs(at::TensorList tensors);

  // joined(): the values of all these inputs, concatenated. output_from(): at the end, `output`
  // gets the values of `joined` from `offset` on.
  at::Tensor joined(at::TensorList inputs);
  // The same for tensors that get their results back.
  at::Tensor joined_outputs(at::TensorList tensors);
  void output_from(const at::Tensor& joined, std::int64_t offset, const at::Tensor& output);

  // For tensors that are not dense: the last step of finish().
  void set_last_step(std::function<void()> step) { last_step_ = std::move(step); }
  // The outputs hold the collective's result: completes it and writes it back.
  void finish();

  const Name& name() const { return name_; }

 private:
  static constexpr std::int64_t kWhole = -1;
  struct Output {
    at::Tensor tensor;
    at::Tensor buffer;  // the tensor itself, or its contiguous copy in the type that is sent
    std::int64_t offset = kWhole;  // where its values begin in memory that several outputs share
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
  mutable std::chrono::steady_clock::time_point looked_at_ = std::chrono::steady_clock::now();
  mutable std::chrono::nanoseconds spent_{0};
  std::optional<std::chrono::milliseconds> convert_within_;
  std::vector<at::Tensor> inputs_;  // kept alive
  std::vector<Output> outputs_;
  std::function<void()> last_step_;
};

}  // namespace atp::pytorch
