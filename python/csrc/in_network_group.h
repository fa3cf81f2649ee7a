#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "atp/collective/communicator.h"
#include "python/csrc/process_group.h"

// A process group whose SUM and AVG all-reduces of dense float32 tensors go through the switches
// and servers of its route. Every group, a subgroup too, is a job of its own with its own
// Communicator. A group of one rank has none.

namespace atp::pytorch {

class InNetworkGroup : public ProcessGroupATP {
 public:
  // `communicator` is null in a group of one.
  InNetworkGroup(int rank, int size, std::chrono::milliseconds timeout,
                 c10::intrusive_ptr<c10d::Backend> gloo,
                 std::unique_ptr<Communicator> communicator);

  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr allreduce_coalesced(Tensors& tensors,
                              const c10d::AllreduceCoalescedOptions& options) override;

  // Names the call site of the sums to come: those of another name have a scale of their own. The
  // same at every rank, as it is part of an operation's fingerprint.
  void set_tag(std::uint32_t tag) { tag_ = tag; }

  Counts counters() const override;
  std::size_t values_per_fragment() const override;

 protected:
  void leave_transport() override;
  void abort_transport() override;
  void destroy_transport() override { communicator_.reset(); }

 private:
  bool sums(const Tensors& tensors, const c10d::AllreduceOptions& options) const;
  WorkPtr sum(const Buffers::Name& name, const Tensors& tensors,
              const c10d::AllreduceOptions& options);

  std::atomic<std::uint32_t> tag_{0};
  std::unique_ptr<Communicator> communicator_;
};

}  // namespace atp::pytorch
