#pragma once

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

#include "python/csrc/collective_work.h"
#include "python/csrc/completion/completion_pool.h"
#include "python/csrc/traffic.h"

// A c10d backend that hands every collective to an inner one (Gloo), after checking that its
// tensors are on the CPU and counting what was asked for. A backend that does some collectives
// itself derives from it and overrides those.
//
// Calls go to the inner group on the caller's own thread, in the caller's order: Gloo matches
// collectives by the order of calls alone. It gets contiguous memory (buffers.h), as it takes any
// tensor for that, and only the reductions that it knows.
//
// After fork() the child has none of the threads: there every collective raises an error, and what
// would end a thread does nothing.

namespace atp::pytorch {

class DelegatingBackend : public c10d::Backend {
 public:
  using Tensors = std::vector<at::Tensor>;
  using TensorLists = std::vector<std::vector<at::Tensor>>;
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;

  DelegatingBackend(int rank, int size, c10::intrusive_ptr<c10d::Backend> inner);
  ~DelegatingBackend() override;

  std::vector<TrafficRow> traffic() const { return traffic_.rows(); }
  // To wait for the callbacks of operations that have ended.
  std::shared_ptr<CompletionPool> completion_pool() const { return completion_; }

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr allreduce_coalesced(Tensors& tensors,
                              const c10d::AllreduceCoalescedOptions& options) override;
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  WorkPtr allgather(TensorLists& outputs, Tensors& inputs,
                    const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_coalesced(TensorLists& outputs, Tensors& inputs,
                              const c10d::AllgatherOptions& options) override;
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input,
                          const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& options) override;
  WorkPtr gather(TensorLists& outputs, Tensors& inputs,
                 const c10d::GatherOptions& options) override;
  WorkPtr scatter(Tensors& outputs, TensorLists& inputs,
                  const c10d::ScatterOptions& options) override;
  WorkPtr reduce_scatter(Tensors& outputs, TensorLists& inputs,
                         const c10d::ReduceScatterOptions& options) override;
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override;
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::ReduceScatterOptions& options) override;
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<std::int64_t>& out_split,
                        std::vector<std::int64_t>& in_split,
                        const c10d::AllToAllOptions& options) override;
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs,
                   const c10d::AllToAllOptions& options) override;
  WorkPtr send(Tensors& tensors, int to_rank, int tag) override;
  WorkPtr recv(Tensors& tensors, int from_rank, int tag) override;
  WorkPtr recvAnysource(Tensors& tensors, int tag) override;
  // Ends when all ranks are there and the earlier collectives of this one have ended. A barrier
  // that the caller waits for begins after those, so then it has seen those of all ranks end.
  WorkPtr barrier(const c10d::BarrierOptions& options) override;
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) override;

  // The number of collectives so far, point-to-point transfers apart; nobody needs to agree on a
  // first one, as every group starts at 0.
  void setSequenceNumberForGroup() override {}
  std::uint64_t getSequenceNumberForGroup() override { return sequence_; }

  void setGroupUid(const std::string& uid) override;
  void setTimeout(std::chrono::milliseconds timeout) override;
  void shutdown() override;
  void abort() override;

 protected:
  using EndPart = std::function<void(const std::string& error)>;

  bool is_forked() const { return getpid() != owner_; }

  // Checks the tensors of a collective, counts it, and returns its sequence number.
  std::uint64_t begin(const char* path, const char* operation, at::TensorList tensors);

  // To be called when parts of the work end: finishes it when all have.
  EndPart expect_parts(const c10::intrusive_ptr<CollectiveWork>& work, std::size_t count);
  // Of a work of one part, which its caller waits for: if that part ends on this very thread, so
  // does the work, without another thread.
  EndPart expect_here(const c10::intrusive_ptr<CollectiveWork>& work);
  CompletionPool& completion() const { return *completion_; }

  // Ends the inner group and then the threads, which finish what was under way; the last thing that
  // a final class does. In a forked child it leaves both alone.
  void end_threads();

 private:
  // A collective that the inner group is to carry out.
  struct Delegated {
    std::uint64_t sequence;
    Buffers buffers;
  };
  // `inputs` are what is checked and counted.
  Delegated delegate(const Buffers::Name& name, at::TensorList inputs);
  // The work for the caller: the inner group's own, or one that finishes the buffers after it.
  WorkPtr follow(Delegated call, const Tensors& results, WorkPtr inner);
  // Sums each list of inputs, taken as one tensor, and brings what begins at the offset to the
  // output.
  WorkPtr sum_blocks(const Buffers::Name& name, const TensorLists& inputs, const Tensors& outputs,
                     const std::vector<std::int64_t>& offsets,
                     const c10d::ReduceScatterOptions& options);
  // The same for a transfer between two ranks, which is no collective.
  void begin_transfer(const char* operation, at::TensorList tensors);
  void check_owner(const char* operation) const;

  const pid_t owner_ = getpid();
  c10::intrusive_ptr<c10d::Backend> inner_;
  std::shared_ptr<CompletionPool> completion_;
  Traffic traffic_;
  std::atomic<std::uint64_t> sequence_{0};
};

}  // namespace atp::pytorch
