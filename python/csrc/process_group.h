#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "atp/base/failure_kind.h"
#include "atp/collective/communicator.h"
#include "python/csrc/peers_backend.h"
#include "python/csrc/torch_version.h"

// The common base of the process groups of the backend "atp": they carry out some collectives over
// their own transport, and everything else over the connections between any two ranks
// (peers_backend.h).
//
// The choice depends only on data type, layout class, operation and the group's size and options,
// which are the same on every rank, never on anything local: ranks that chose differently would
// wait for one another until the time-out. For the same reason, a failure on one path is never
// repaired on the other.

namespace atp::pytorch {

// torch's options, as a type that Python can copy.
struct GroupOptions final : c10d::Backend::Options {
  using Options::Options;
};

class ProcessGroupATP : public PeersBackend {
 public:
  using Counts = std::vector<std::pair<std::string, std::uint64_t>>;

  // `timeout`: the longest time that an operation may take, from its call to its end.
  ProcessGroupATP(int rank, int size, std::chrono::milliseconds timeout);

  const std::string getBackendName() const override { return "atp"; }
  // A copy: torch changes it, to make another group.
  c10::intrusive_ptr<Options> getBackendOptions() override {
    return c10::make_intrusive<GroupOptions>(*options_);
  }

  // Makes a subgroup with these of this group's ranks; this rank has number `rank` in it.
  using MakeSplit = std::function<c10::intrusive_ptr<c10d::Backend>(
      const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks, int rank,
      const std::string& name, std::chrono::milliseconds timeout)>;
  // Before the group is published.
  void set_split(MakeSplit make) { make_split_ = std::move(make); }
  bool supportsSplitting() const override { return make_split_ != nullptr; }
  // For torch's split_group(), which all members call. Null at a rank that is not among `ranks`.
  c10::intrusive_ptr<c10d::Backend> split(const c10::intrusive_ptr<c10d::Store>& store,
                                          const std::vector<int>& ranks,
                                          const c10::intrusive_ptr<Options>& options) override;

#ifdef C10D_BACKEND_HAS_RECONFIGURE
  WorkPtr reconfigure(const c10d::ReconfigureOptions& options) override;
#endif

  void setTimeout(std::chrono::milliseconds timeout) override;
  // Waits for operations in progress (each has its own deadline), then leaves. Idempotent.
  void shutdown() override;
  // Fails the operations in progress and leaves. Idempotent.
  void abort() override;
  // How the group has failed, as of the first failure that a call of this function saw; SUCCESS if
  // it has not. An abort() of this rank is no failure. COMM_ERROR in a forked child.
  c10d::ErrorType getError() override;
  // Like abort(), but does not wait: abort() must still be called.
  void give_up();
  // Like give_up(), at the end of the process.
  void give_up_at_exit() {
    leave_because_process_ends();
    give_up();
  }

  // The counters of this rank's transport; empty in a group of one.
  virtual Counts counters() const = 0;
  virtual std::size_t values_per_fragment() const { return 0; }
  // The ranks that the oldest operation has waited for, if for a second or more.
  std::optional<WaitedForRanks> waited_for() const;
  std::map<Rank, Duration> waits() const;

  // Why a group with algorithm="auto" sums as it does; else empty. Set before the group is
  // published.
  const std::string& choice() const { return choice_; }
  void set_choice(std::string text) { choice_ = std::move(text); }

 protected:
  // Every final class calls it before it ends: leaves; operations in progress fail.
  void stop();

  // Each of them is idempotent.
  virtual void leave_transport() = 0;
  virtual void abort_transport() = 0;
  virtual void give_up_transport() = 0;
  // No operation is in progress afterwards.
  virtual void destroy_transport() = 0;
  virtual FailureKind transport_failure() const = 0;
  virtual std::optional<WaitedForRanks> transport_waited_for() const { return std::nullopt; }
  virtual std::map<Rank, Duration> transport_waits() const { return {}; }

 private:
  const c10::intrusive_ptr<GroupOptions> options_;
  MakeSplit make_split_;
  std::mutex split_mutex_;
  // The last split, and its name. torch 2.13 asks for a split once for each device of the group,
  // and keeps the first. Weak: a split that the program has destroyed is to end.
  std::string split_name_;
  std::optional<c10::weak_intrusive_ptr<c10d::Backend>> split_;
  std::string choice_;
  std::atomic<FailureKind> failure_{FailureKind::kNone};
};

// Whether the transports support the reduction: a sum, with a step before or after it.
bool is_linear(const c10d::ReduceOp& op);
// The number of values of each tensor, for one operation on several concatenated tensors.
std::vector<std::size_t> lengths_of(at::TensorList tensors);
at::Tensor one_buffer(Buffers& buffers, const std::vector<at::Tensor>& tensors);
// The transport's part of such a reduction; the work's buffers do the rest.
Reduction reduction_of(const c10d::ReduceOp& op, const std::vector<at::Tensor>& tensors,
                       Buffers& buffers, int ranks);

}  // namespace atp::pytorch
