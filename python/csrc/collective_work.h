#pragma once

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <utility>
#include <vector>

#include "atp/collective/recorder/flight_recorder.h"
#include "python/csrc/buffers.h"

// One collective in progress: the memory that it works on, and the Work and Future that notify the
// caller of its end. It lives for as long as a part is in flight, because DDP drops the Work at
// once and keeps only the Future.

namespace atp::pytorch {

class CollectiveWork final : public c10d::Work {
 public:
  // `results`: the Future's value.
  CollectiveWork(int rank, std::uint64_t sequence, const std::vector<at::Tensor>& results,
                 Buffers buffers);
  ~CollectiveWork() override;

  // Where its end is recorded, before the first part can end. `recorded` may be null.
  void record_to(std::shared_ptr<RecordedGroup> recorded, RecordedGroup::Token token) {
    recorded_ = std::move(recorded);
    token_ = token;
  }
  Buffers& buffers() { return buffers_; }
  // How long the call has taken so far: its time-out counts from the call.
  std::chrono::milliseconds spent() const { return buffers_.spent(); }

  // For a receive: the sender's rank, once it has ended. Call it before the caller has the work.
  void set_source(std::function<int()> source) { source_ = std::move(source); }
  // Sets the number of parts, before the first can end. False if there is nothing to wait for.
  bool expect_parts(std::size_t count);
  // A part has ended, with an error if `error` is not empty. True for the last one: the caller must
  // then have settle() and tell() called, on a thread that may run Python.
  bool end_part(const std::string& error);

  // Writes the result to the caller's tensors, and records the end.
  void settle();
  // Completes the Future, then the Work, so that a thread woken by one finds the result of the
  // other, too. Runs the callbacks of the Future.
  void tell();

  // True as soon as the result is available, though callbacks may still run.
  bool isCompleted() override { return settled_; }
  bool isSuccess() const override { return settled_ && !failure_; }
  std::exception_ptr exception() const override { return settled_ ? failure_ : nullptr; }
  // Raises in a forked child, where nothing would end it. Returns at once in a callback of its own
  // Future: it has ended.
  bool wait(std::chrono::milliseconds timeout) override;
  int sourceRank() const override { return source_ ? source_() : Work::sourceRank(); }
  std::vector<at::Tensor> result() override { return results_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }
  std::uint64_t getSequencenumber() const override { return sequence_; }

 private:
  void record_end();

  const pid_t owner_ = getpid();
  const std::uint64_t sequence_;
  std::vector<at::Tensor> results_;
  Buffers buffers_;
  std::shared_ptr<RecordedGroup> recorded_;
  RecordedGroup::Token token_ = 0;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
  std::function<int()> source_;
  std::atomic<std::size_t> parts_left_{0};
  std::mutex error_mutex_;
  std::string error_;  // the error of the first part that failed
  std::exception_ptr failure_;
  std::atomic<bool> settled_{false};
  std::atomic<std::thread::id> telling_{};  // the thread that runs its callbacks
};

}  // namespace atp::pytorch
