#pragma once

#include <atomic>
#include <mutex>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <utility>

#include "python/csrc/buffers.h"

// A receive of Gloo's into a copy of the caller's tensor, which it brings back when somebody waits.
// Such works have no Future, and nothing moves unless somebody waits for them.

namespace atp::pytorch {

class ReceivedWork final : public c10d::Work {
 public:
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;

  // `inner` itself where there is no copy.
  static WorkPtr around(WorkPtr inner, Buffers buffers) {
    if (!buffers.need_finish()) return inner;
    return c10::make_intrusive<ReceivedWork>(std::move(inner), std::move(buffers));
  }
  ReceivedWork(WorkPtr inner, Buffers buffers)
      : inner_(std::move(inner)), buffers_(std::move(buffers)) {}

  bool wait(std::chrono::milliseconds timeout) override {
    if (!inner_->wait(timeout)) return false;
    std::call_once(brought_back_, [this] { buffers_.finish(); });
    done_ = true;
    return true;
  }
  bool isCompleted() override { return done_; }
  bool isSuccess() const override { return done_; }
  int sourceRank() const override { return inner_->sourceRank(); }
  void synchronize() override {}
  void abort() override { inner_->abort(); }

 private:
  const WorkPtr inner_;
  Buffers buffers_;
  std::once_flag brought_back_;
  std::atomic<bool> done_{false};
};

}  // namespace atp::pytorch
