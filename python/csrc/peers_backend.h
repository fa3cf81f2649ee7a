#pragma once

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

#include "atp/collective/peer/peers.h"
#include "python/csrc/collective_work.h"
#include "python/csrc/completion/completion_pool.h"
#include "python/csrc/torch_version.h"
#include "python/csrc/traffic.h"

// A c10d backend that carries out every collective over connections between any two ranks
// (atp/collective/peer), after checking that its tensors are on the CPU and counting the call. A
// backend with its own way for some collectives derives from it and overrides those.
//
// A collective gets its number on the caller's thread, in the caller's order, which is the same at
// all ranks.
//
// After fork() the child has none of the threads: every collective raises an error there, and calls
// that would end a thread do nothing.

namespace atp::pytorch {

inline constexpr const char* kAborted = "the process group was aborted";
inline constexpr const char* kProcessEnded = "its process has ended";

class PeersBackend : public c10d::Backend {
 public:
  using Tensors = std::vector<at::Tensor>;
  using TensorLists = std::vector<std::vector<at::Tensor>>;
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;

  PeersBackend(int rank, int size, std::chrono::milliseconds timeout);
  ~PeersBackend() override;

  // Must be called before the group is published. `peers`: null only before a failure.
  void set_peers(std::shared_ptr<Peers> peers) { peers_ = std::move(peers); }
  // Before the group is published: sums and averages of float32 and float64 go around a ring, those
  // of float32 in all-reduces by the rule of numbers in this format.
  void sum_around_ring(NumberFormat format) { ring_ = format; }
  bool sums_around_ring() const { return ring_.has_value(); }

  // Where its collectives and transfers are recorded; may be null. Before the group is published.
  void set_recorded(std::shared_ptr<RecordedGroup> recorded) { recorded_ = std::move(recorded); }

  std::vector<TrafficRow> traffic() const { return traffic_.rows(); }
  // For waiting for the callbacks of collectives that have ended.
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
#ifdef ATP_TORCH_HAS_GATHER_SINGLE
  WorkPtr gather_single(at::Tensor& output, at::Tensor& input,
                        const c10d::GatherOptions& options) override;
#endif
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
  // Ends when all ranks have come and this rank's earlier collectives have ended. A barrier that
  // the caller waits for starts only after these, so it has then waited for those of all ranks.
  WorkPtr barrier(const c10d::BarrierOptions& options) override;
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) override;

  // The number of collectives so far, without point-to-point transfers. The ranks need not agree on
  // a first number, as every group starts at 0.
  void setSequenceNumberForGroup() override {}
  std::uint64_t getSequenceNumberForGroup() override { return sequence_; }

  void setTimeout(std::chrono::milliseconds timeout) override { timeout_ = timeout; }
  void shutdown() override;
  void abort() override;

 protected:
  using EndPart = std::function<void(const std::string& error)>;
  using OwnWork = c10::intrusive_ptr<CollectiveWork>;

  bool is_forked() const { return getpid() != owner_; }
  void check_open(const char* operation) const;
  // Why the derived group's own transport has failed, if it has.
  virtual std::optional<std::string> transport_failure_text() const { return std::nullopt; }
  // Fails its operations, and tells the other ranks why, without waiting.
  virtual void fail_transport(const std::string& /*why*/) {}

  // Checks and counts a collective's `inputs`, and makes its work. `path`: the transport that
  // carries it out.
  OwnWork begin_work(const char* path, const Buffers::Name& name, at::TensorList inputs,
                     const Tensors& results);
  std::chrono::milliseconds timeout_of(std::chrono::milliseconds asked_for) const;
  void check_root(const Buffers::Name& name, std::int64_t root) const;

  // Returns the function to call when a part of the work ends; it finishes the work after the last.
  EndPart expect_parts(const OwnWork& work, std::size_t count) const;
  // For a work of one part that its caller waits for: if the part ends on this thread, this thread
  // finishes the work, too.
  EndPart expect_here(const OwnWork& work) const;
  CompletionPool& completion() const { return *completion_; }

  // Whether a derived group has its own way for collectives that only move tensors: submit_own().
  virtual bool moves_itself() const { return false; }
  // The parts of the work. Inputs and outputs belong to it, and do not overlap.
  virtual void submit_own(const OwnWork& /*work*/, std::vector<CollectiveRequest> /*requests*/,
                          std::chrono::milliseconds /*timeout*/, bool /*waits*/) {}
  // A reduce-scatter for each output. Its inputs are one per rank, or one that holds them all.
  virtual WorkPtr scatter_sums(const Buffers::Name& name, const Tensors& outputs,
                               const TensorLists& inputs,
                               const c10d::ReduceScatterOptions& options);
  void set_blocks(const Buffers::Name& name, const Tensors& inputs, const at::Tensor& output,
                  Buffers& buffers, CollectiveRequest* request) const;
  static Tensors flat(const TensorLists& lists);

  // Why abort() and give_up() say that this rank leaves. Empty: it has simply finished.
  const char* leaving_because() const { return leaving_because_; }
  // For the end of the process, which is no abort: a program need not destroy its groups.
  void leave_because_process_ends() {
    const bool has_finished = completion_->have_settled(completion_->mark());
    leaving_because_ = has_finished ? "" : kProcessEnded;
  }

  const std::shared_ptr<Peers>& peers() const { return peers_; }
  // Without a transport of the derived group: see InNetworkGroup.
  WorkPtr average_segments_by_peers(const at::Tensor& tensor,
                                    const std::vector<std::size_t>& lengths,
                                    std::optional<NumberFormat> format);

  // From now on nothing is started. True if it was closed before.
  bool close() { return closed_.exchange(true); }
  // Before it leaves: fails both paths if one has failed, so that the other ranks hear why.
  void share_failure() {
    fail_after_other_path("peers");
    fail_after_other_path("transport");
  }
  void give_up_peers();
  FailureKind peers_failure() const;
  std::optional<WaitedForRanks> peers_waited_for() const;
  std::map<Rank, Duration> peers_waits() const;
  // Ends the connections and then the threads, which finish the operations in progress; the last
  // step of a final class's destructor. In a forked child it leaves both alone.
  void end_threads();
  std::size_t ranks() const { return static_cast<std::size_t>(getSize()); }
  std::size_t own_rank() const { return static_cast<std::size_t>(getRank()); }

 private:
  // A group that has failed on one path fails on the other with its next operation there: the other
  // ranks may have given up, and would be waited for in vain.
  void fail_after_other_path(std::string_view path);
  OwnWork begin(const Buffers::Name& name, at::TensorList inputs, const Tensors& results,
                bool around_ring = false) {
    return begin_work(around_ring ? "ring" : "peers", name, inputs, results);
  }
  bool adds_around_ring(at::TensorList tensors, const c10d::ReduceOp& op) const;
  // Submits the requests as the parts of the work. `waits`: the caller waits for only this work.
  WorkPtr submit(const OwnWork& work, std::vector<CollectiveRequest> requests,
                 std::chrono::milliseconds timeout, bool waits);
  // The same for collectives that only move tensors.
  OwnWork begin_move(const Buffers::Name& name, at::TensorList inputs, const Tensors& results,
                     bool around_ring = false) {
    return moves_itself() ? begin_work("innetwork", name, inputs, results)
                          : begin(name, inputs, results, around_ring);
  }
  WorkPtr submit_move(const OwnWork& work, std::vector<CollectiveRequest> requests,
                      std::chrono::milliseconds timeout, bool waits);
  WorkPtr carry_out_here(const OwnWork& work, std::vector<CollectiveRequest> requests);
  WorkPtr transfer(const Buffers::Name& name, Collective call, std::size_t peer,
                   const Tensors& tensors, int tag);
  WorkPtr gather_all(const Buffers::Name& name, const Tensors& outputs, const Tensors& inputs,
                     const c10d::AllgatherOptions& options);
  WorkPtr reduce_all(const Buffers::Name& name, const Tensors& tensors,
                     const c10d::AllreduceOptions& options);
  // One operation on all tensors, of float32. `segments`: empty for a single tensor.
  WorkPtr sum_by_rule(const Buffers::Name& name, const Tensors& tensors,
                      const c10d::AllreduceOptions& options, std::vector<std::size_t> segments,
                      NumberFormat format);
  // Fills in the rest of `start`.
  void record(const OwnWork& work, OperationStart start, at::TensorList inputs,
              const Tensors& results);
  class Caller;
  EndPart expect_parts_of(CompletionPool& pool, const OwnWork& work, std::size_t count) const;
  CompletionPool& transfer_completion();

  const pid_t owner_ = getpid();
  std::atomic<std::chrono::milliseconds> timeout_;
  std::atomic<bool> closed_{false};
  std::atomic<const char*> leaving_because_{kAborted};
  std::shared_ptr<Peers> peers_;
  std::optional<NumberFormat> ring_;
  std::shared_ptr<CompletionPool> completion_;
  // Barriers do not wait for transfers, as the other side may come after the barrier. Made when
  // first needed.
  std::mutex transfers_mutex_;
  std::shared_ptr<CompletionPool> transfers_;
  Traffic traffic_;
  std::atomic<std::uint64_t> sequence_{0};
  std::atomic<std::uint64_t> transfers_begun_{0};
  std::shared_ptr<RecordedGroup> recorded_;
  std::once_flag described_;
};

}  // namespace atp::pytorch
