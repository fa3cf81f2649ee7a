#pragma once

#include "python/csrc/torch_version.h"

#ifdef C10D_BACKEND_HAS_RECONFIGURE

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

#include "python/csrc/process_group.h"

// A group whose ranks can change (torch.distributed._reconfigure). It holds a complete group of
// the ranks that the last reconfigure() named, and forwards every call to it; before the first one
// there is none, and every collective raises an error. Members find one another under the uuid in
// the store with which the group was created.
//
// A reconfigure() makes a new group instead of repairing the old one: a failed group can only
// be destroyed, and the rest of the backend relies on ranks that never change.

namespace atp::pytorch {

class ReconfigurableGroup final : public c10d::Backend {
 public:
  using Tensors = std::vector<at::Tensor>;
  using TensorLists = std::vector<std::vector<at::Tensor>>;
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;
  using Member = c10::intrusive_ptr<c10d::Backend>;
  using Milliseconds = std::chrono::milliseconds;
  // Meets the other ranks and makes their group.
  using Make = std::function<Member(std::int64_t uuid, int rank, int size, Milliseconds timeout)>;

  // `handle`: names this process in the lists that reconfigure() gets; no other process has it.
  ReconfigurableGroup(int rank, int size, Milliseconds timeout, std::string handle, Make make);

  bool supportsReconfigure() const override { return true; }
  c10d::ReconfigureHandle get_reconfigure_handle() const override { return handle_; }
  // Aborts the current group, if any, and makes a new one. If that fails, there is none, and
  // another call may follow.
  WorkPtr reconfigure(const c10d::ReconfigureOptions& options) override;
  // The group that calls are forwarded to; throws if there is none.
  Member member() const;

  const std::string getBackendName() const override { return "atp"; }
  // A copy, as of every group.
  c10::intrusive_ptr<Options> getBackendOptions() override {
    return c10::make_intrusive<GroupOptions>(*options_);
  }
  void setTimeout(Milliseconds timeout) override;
  void setSequenceNumberForGroup() override {}
  std::uint64_t getSequenceNumberForGroup() override;
  void shutdown() override;
  void abort() override;
  // The error of the current group; SUCCESS if there is none.
  c10d::ErrorType getError() override;

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    return member()->broadcast(tensors, options);
  }
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    return member()->allreduce(tensors, options);
  }
  WorkPtr allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    return member()->allreduce_sparse(tensors, options);
  }
  WorkPtr allreduce_coalesced(Tensors& tensors,
                              const c10d::AllreduceCoalescedOptions& options) override {
    return member()->allreduce_coalesced(tensors, options);
  }
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override {
    return member()->reduce(tensors, options);
  }
  WorkPtr allgather(TensorLists& outputs, Tensors& inputs,
                    const c10d::AllgatherOptions& options) override {
    return member()->allgather(outputs, inputs, options);
  }
  WorkPtr allgather_coalesced(TensorLists& outputs, Tensors& inputs,
                              const c10d::AllgatherOptions& options) override {
    return member()->allgather_coalesced(outputs, inputs, options);
  }
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input,
                          const c10d::AllgatherOptions& options) override {
    return member()->_allgather_base(output, input, options);
  }
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& options) override {
    return member()->allgather_into_tensor_coalesced(outputs, inputs, options);
  }
  WorkPtr gather(TensorLists& outputs, Tensors& inputs,
                 const c10d::GatherOptions& options) override {
    return member()->gather(outputs, inputs, options);
  }
  WorkPtr gather_single(at::Tensor& output, at::Tensor& input,
                        const c10d::GatherOptions& options) override {
    return member()->gather_single(output, input, options);
  }
  WorkPtr scatter(Tensors& outputs, TensorLists& inputs,
                  const c10d::ScatterOptions& options) override {
    return member()->scatter(outputs, inputs, options);
  }
  WorkPtr reduce_scatter(Tensors& outputs, TensorLists& inputs,
                         const c10d::ReduceScatterOptions& options) override {
    return member()->reduce_scatter(outputs, inputs, options);
  }
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override {
    return member()->_reduce_scatter_base(output, input, options);
  }
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::ReduceScatterOptions& options) override {
    return member()->reduce_scatter_tensor_coalesced(outputs, inputs, options);
  }
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<std::int64_t>& out_split,
                        std::vector<std::int64_t>& in_split,
                        const c10d::AllToAllOptions& options) override {
    return member()->alltoall_base(output, input, out_split, in_split, options);
  }
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs,
                   const c10d::AllToAllOptions& options) override {
    return member()->alltoall(outputs, inputs, options);
  }
  WorkPtr send(Tensors& tensors, int to_rank, int tag) override {
    return member()->send(tensors, to_rank, tag);
  }
  WorkPtr recv(Tensors& tensors, int from_rank, int tag) override {
    return member()->recv(tensors, from_rank, tag);
  }
  WorkPtr recvAnysource(Tensors& tensors, int tag) override {
    return member()->recvAnysource(tensors, tag);
  }
  WorkPtr barrier(const c10d::BarrierOptions& options) override {
    return member()->barrier(options);
  }
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) override {
    member()->monitoredBarrier(options, wait_all_ranks);
  }

 private:
  Member member_or_none() const;

  const c10::intrusive_ptr<GroupOptions> options_;
  const std::string handle_;
  const Make make_;
  std::set<std::int64_t> used_;  // by reconfigure(), which no two threads call at a time
  mutable std::mutex mutex_;     // of what follows
  Member member_;
  bool has_own_timeout_ = false;
};

}  // namespace atp::pytorch

#endif
