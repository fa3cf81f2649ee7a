#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

// One all-reduce on its way: the caller's tensors, the memory that is really summed, and the Work
// and Future by which the caller learns of the end. It is alive as long as a part is in flight,
// because DDP drops the Work at once and keeps the Future only.
//
// A contiguous tensor is summed where it is. Any other is summed in a contiguous copy, which is
// written back at the end: strides are a rank's own affair, so they must not decide the path.

namespace atp::pytorch {

class AllReduceWork final : public c10d::Work {
 public:
  // `title` names the operation in profiles. The tensors are dense float32 tensors on the CPU.
  AllReduceWork(int rank, c10d::OpType type, const char* title, std::uint64_t sequence,
                const std::vector<at::Tensor>& tensors);

  // The memory to sum: one part per tensor that has elements.
  const std::vector<std::span<float>>& parts() const { return parts_; }

  // A part has ended, with an error if `error` is not empty. True for the last one: then
  // complete() is due, on a thread that may run Python.
  bool end_part(const std::string& error);

  // Writes copies back and completes the Future, then the Work, so that nobody who wakes up from
  // the one finds the other one's result missing. Runs the callbacks of the Future.
  void complete();

  std::vector<at::Tensor> result() override { return tensors_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }
  std::uint64_t getSequencenumber() const override { return sequence_; }

 private:
  void write_back();

  const std::uint64_t sequence_;
  std::vector<at::Tensor> tensors_;
  std::vector<at::Tensor> buffers_;  // by tensor: itself, or its contiguous copy
  std::vector<std::span<float>> parts_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
  std::atomic<std::size_t> parts_left_;
  std::mutex error_mutex_;
  std::string error_;  // of the part that failed first
};

}  // namespace atp::pytorch
