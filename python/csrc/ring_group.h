#pragma once

#include <optional>

#include "atp/collective/ring/ring.h"
#include "python/csrc/process_group.h"

// A process group whose ranks sum over TCP, each with its two neighbours: SUM and AVG of dense
// float32 and float64 tensors in all-reduces and reduce-scatters, and all-gathers of dense tensors
// of any type. Sums have the same bits on every rank and in every run; float32 all-reduces have the
// same bits as in the network.

namespace atp::pytorch {

class RingGroup : public ProcessGroupATP {
 public:
  // `format`: the format of float32 all-reduces on the wire.
  RingGroup(int rank, int size, std::chrono::milliseconds timeout, std::unique_ptr<Ring> ring,
            NumberFormat format);

  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr allreduce_coalesced(Tensors& tensors,
                              const c10d::AllreduceCoalescedOptions& options) override;
  WorkPtr allgather(TensorLists& outputs, Tensors& inputs,
                    const c10d::AllgatherOptions& options) override;
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input,
                          const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& options) override;
  WorkPtr reduce_scatter(Tensors& outputs, TensorLists& inputs,
                         const c10d::ReduceScatterOptions& options) override;
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override;
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::ReduceScatterOptions& options) override;

  // The average of a dense tensor that consists of segments of these lengths, such as parameters.
  // Like allreduce() for types other than float32; a format that is then impossible is an error.
  WorkPtr average_segments(const at::Tensor& tensor, const std::vector<std::size_t>& lengths,
                           std::optional<NumberFormat> format);

  Counts counters() const override { return ring_->counters(); }
  std::optional<WaitedForRanks> transport_waited_for() const override {
    return ring_ == nullptr ? std::nullopt : ring_->waited_for();
  }
  std::map<Rank, Duration> transport_waits() const override {
    return ring_ == nullptr ? std::map<Rank, Duration>() : ring_->waits();
  }

 protected:
  void leave_transport() override;
  void abort_transport() override;
  void give_up_transport() override;
  FailureKind transport_failure() const override { return ring_->failure_kind(); }
  std::optional<std::string> transport_failure_text() const override { return ring_->failure(); }
  void fail_transport(const std::string& why) override { ring_->stop(why); }
  void destroy_transport() override { ring_.reset(); }

 private:
  WorkPtr sum(const Buffers::Name& name, const Tensors& tensors,
              const c10d::AllreduceOptions& options);
  // One operation on all float32 tensors. `segments`: empty for a single tensor.
  WorkPtr sum_by_rule(const Buffers::Name& name, const Tensors& tensors,
                      const c10d::AllreduceOptions& options, std::vector<std::size_t> segments,
                      NumberFormat format);
  WorkPtr gather(const Buffers::Name& name, const Tensors& outputs, const Tensors& inputs,
                 const c10d::AllgatherOptions& options);
  WorkPtr scatter(const Buffers::Name& name, const Tensors& outputs, const Tensors& inputs,
                  const c10d::ReduceScatterOptions& options);
  // Submits the requests as the parts of the work.
  WorkPtr submit(const c10::intrusive_ptr<CollectiveWork>& work, std::vector<RingRequest> requests,
                 std::chrono::milliseconds timeout);

  const NumberFormat format_;
  std::unique_ptr<Ring> ring_;
};

}  // namespace atp::pytorch
