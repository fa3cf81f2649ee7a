#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "atp/collective/communicator.h"
#include "python/csrc/completion_thread.h"
#include "python/csrc/delegating_backend.h"

// The backend "atp" of torch.distributed: SUM and AVG all-reduce of dense float32 tensors go
// through the Communicator, everything else to Gloo.
//
// The choice depends on data type, layout class, size, operation and the group's size alone, which
// are the same at every rank, never on anything local: ranks that chose differently would wait for
// one another until the time-out. For the same reason no failure of one path is repaired on the
// other.
//
// Every group, a subgroup too, is a job of its own with its own Communicator. A group of one rank
// has none.

namespace atp::pytorch {

class ProcessGroupATP : public DelegatingBackend {
 public:
  // `communicator` is null in a group of one. `timeout` bounds an operation's time without
  // progress.
  ProcessGroupATP(int rank, int size, std::chrono::milliseconds timeout,
                  c10::intrusive_ptr<c10d::Backend> gloo,
                  std::unique_ptr<Communicator> communicator);
  // Leaves the job; what is still under way fails.
  ~ProcessGroupATP() override;

  const std::string getBackendName() const override { return "atp"; }
  c10::intrusive_ptr<Options> getBackendOptions() override { return options_; }

  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr allreduce_coalesced(Tensors& tensors,
                              const c10d::AllreduceCoalescedOptions& options) override;

  void setTimeout(std::chrono::milliseconds timeout) override;
  // Waits for what is under way (each operation has its own deadline), then leaves. Idempotent.
  void shutdown() override;
  // Fails what is under way and leaves. Idempotent.
  void abort() override;

  // What the worker of this rank has counted; empty in a group of one.
  CounterList counters() const;
  std::size_t values_per_fragment() const;

  // To wait for the callbacks of operations that have ended.
  std::shared_ptr<CompletionThread::Queue> completion_queue() const { return completion_->queue(); }

 protected:
  // The destructor's work, for a subclass that has to release the GIL around it.
  void stop();

 private:
  bool sums(const Tensors& tensors, const c10d::AllreduceOptions& options) const;
  WorkPtr sum(c10d::OpType type, const char* operation, const Tensors& tensors,
              const c10d::AllreduceOptions& options);

  const c10::intrusive_ptr<Options> options_;
  std::atomic<std::chrono::milliseconds> timeout_;
  std::atomic<bool> closed_{false};
  // After the thread in the order of members, so destroyed before it: its callbacks hand over to
  // the thread's queue until it has gone.
  std::optional<CompletionThread> completion_;
  std::unique_ptr<Communicator> communicator_;
};

}  // namespace atp::pytorch
