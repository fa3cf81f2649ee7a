#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "atp/collective/communicator.h"
#include "python/csrc/process_group.h"

// A process group whose all-reduces of dense tensors go through the switches and servers of its
// route, if these support the type and the reduction (the table is carriage() in the source).
// Every group, including a subgroup, is its own job with its own Communicator. A group of one rank
// has none, nor has one whose algorithm is the ring. With a ring as well, the communicator decides
// which of the two paths a float32 sum takes. If the communicator's ranks share a host's memory,
// reduces and reduce-scatters of the same types and all collectives that only move tensors use it,
// too (in_network_group_memory.cc).

namespace atp::pytorch {

class InNetworkGroup : public ProcessGroupATP {
 public:
  // `communicator` is null if there is none. `format`: the job's.
  InNetworkGroup(int rank, int size, std::chrono::milliseconds timeout,
                 std::unique_ptr<Communicator> communicator, NumberFormat format);

  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr allreduce_coalesced(Tensors& tensors,
                              const c10d::AllreduceCoalescedOptions& options) override;
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;

  // The average of a dense tensor that consists of segments of these lengths, such as parameters.
  // If allreduce() would not use the network, this does not either; a format that is then
  // impossible is an error.
  WorkPtr average_segments(const at::Tensor& tensor, const std::vector<std::size_t>& lengths,
                           std::optional<NumberFormat> format);

  // The shortest time of `rounds` sums of float32 zeros. All ranks call it, before any other
  // operation.
  std::chrono::nanoseconds measure(std::size_t values, std::size_t rounds,
                                   std::chrono::milliseconds timeout,
                                   const MaybeInterruption& interruption);
  // The communicator's add_ring(), with the peers that were set; all ranks call it, before any
  // other operation.
  void add_ring(const CostModels& figures, std::uint64_t judged_every);
  std::optional<TunerCounts> tuner_counts() const;

  // The digest of the sums in the network that have ended; nullopt if none is kept.
  std::optional<DigestReading> digest() const;
  // The digest of all sums started so far, after waiting for them. `restart`: the next one starts a
  // new digest.
  std::optional<DigestReading> final_digest(bool restart);

  Counts counters() const override;
  std::size_t values_per_fragment() const override;
  std::optional<WaitedForRanks> transport_waited_for() const override;
  std::map<Rank, Duration> transport_waits() const override;

 protected:
  void leave_transport() override;
  void abort_transport() override;
  void give_up_transport() override;
  FailureKind transport_failure() const override;
  std::optional<std::string> transport_failure_text() const override;
  void fail_transport(const std::string& why) override;
  void destroy_transport() override { communicator_.reset(); }

  bool moves_itself() const override { return in_memory(); }
  void submit_own(const OwnWork& work, std::vector<CollectiveRequest> requests,
                  std::chrono::milliseconds timeout, bool waits) override;
  WorkPtr scatter_sums(const Buffers::Name& name, const Tensors& outputs, const TensorLists& inputs,
                       const c10d::ReduceScatterOptions& options) override;

 private:
  // How a type is sent, and the reduction that is applied.
  struct Carriage {
    at::ScalarType type = at::kFloat;  // of the memory that is sent
    c10d::ReduceOp::RedOpType reduction = c10d::ReduceOp::SUM;
    // In a host's memory: elements of any type as they are, and not by the rule of numbers.
    bool as_elements = false;
  };
  static std::optional<Carriage> carriage(at::ScalarType type, const c10d::ReduceOp& op);
  // The same for this group.
  std::optional<Carriage> own_carriage(at::ScalarType type, const c10d::ReduceOp& op) const;
  // nullopt if the network does not support it.
  std::optional<Carriage> carriage_of(const Tensors& tensors, const c10d::ReduceOp& op) const;
  // Sets the reduction of a request with this carriage; the work's buffers do the rest.
  void set_reduction(const Buffers::Name& name, const Carriage& carriage, at::TensorList tensors,
                     const c10d::ReduceOp& op, Buffers& buffers, CollectiveRequest* request) const;
  WorkPtr carry_out(const Buffers::Name& name, const Carriage& carriage, const Tensors& tensors,
                    const c10d::AllreduceOptions& options, CollectiveRequest request);

  // in_network_group_memory.cc
  bool in_memory() const { return communicator_ != nullptr && communicator_->in_host_memory(); }
  std::optional<Carriage> carriage_in_memory(at::TensorList outputs, at::TensorList inputs,
                                             const c10d::ReduceOp& op) const;

  const NumberFormat format_;
  std::unique_ptr<Communicator> communicator_;
  const bool keeps_digest_;
};

}  // namespace atp::pytorch
