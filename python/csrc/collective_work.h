#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

// One collective on its way: the caller's tensors, the memory that is really read and written, and
// the Work and Future by which the caller learns of the end. It is alive as long as a part is in
// flight, because DDP drops the Work at once and keeps the Future only.
//
// A contiguous tensor is used where it is. Any other has a contiguous copy, which is written back
// at the end where it holds a result: strides are a rank's own affair, so they must not decide the
// path.

namespace atp::pytorch {

class CollectiveWork final : public c10d::Work {
 public:
  struct Name {
    c10d::OpType type = c10d::OpType::UNKNOWN;
    const char* operation = "";  // as in messages
    const char* title = "";      // as in profiles
  };

  // `results` are what the Future yields. The tensors are dense tensors on the CPU.
  CollectiveWork(int rank, const Name& name, std::uint64_t sequence,
                 const std::vector<at::Tensor>& results);

  // Contiguous memory with the tensor's values, alive as long as the work. That of an output is
  // written back.
  at::Tensor input(const at::Tensor& tensor);
  at::Tensor output(const at::Tensor& tensor);

  // Before the first part can end: how many will. False if there is nothing to wait for.
  bool expect_parts(std::size_t count);
  // A part has ended, with an error if `error` is not empty. True for the last one: then
  // complete() is due, on a thread that may run Python.
  bool end_part(const std::string& error);

  // Writes copies back and completes the Future, then the Work, so that nobody who wakes up from
  // the one finds the other one's result missing. Runs the callbacks of the Future.
  void complete();

  std::vector<at::Tensor> result() override { return results_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }
  std::uint64_t getSequencenumber() const override { return sequence_; }

 private:
  struct Copy {
    at::Tensor tensor;
    at::Tensor buffer;
  };
  void write_back();

  const char* const operation_;
  const std::uint64_t sequence_;
  std::vector<at::Tensor> results_;
  std::vector<at::Tensor> inputs_;  // kept alive
  std::vector<Copy> outputs_;       // the buffer is the tensor itself, or its contiguous copy
  c10::intrusive_ptr<c10::ivalue::Future> future_;
  std::atomic<std::size_t> parts_left_{0};
  std::mutex error_mutex_;
  std::string error_;  // of the part that failed first
};

}  // namespace atp::pytorch
