#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "atp/collective/communicator.h"
#include "python/csrc/peers_backend.h"

// What the process groups of the backend "atp" have in common: some collectives they carry out
// themselves, over a transport of their own, and everything else goes over the connections between
// any two ranks (peers_backend.h).
//
// The choice depends on data type, layout class, operation and the group's size and options alone,
// which are the same at every rank, never on anything local: ranks that chose differently would
// wait for one another until the time-out. For the same reason no failure of one path is repaired
// on the other.

namespace atp::pytorch {

class ProcessGroupATP : public PeersBackend {
 public:
  using Counts = std::vector<std::pair<std::string, std::uint64_t>>;

  // `timeout` bounds an operation's time without progress.
  ProcessGroupATP(int rank, int size, std::chrono::milliseconds timeout);

  const std::string getBackendName() const override { return "atp"; }
  c10::intrusive_ptr<Options> getBackendOptions() override { return options_; }

  void setTimeout(std::chrono::milliseconds timeout) override;
  // Waits for what is under way (each operation has its own deadline), then leaves. Idempotent.
  void shutdown() override;
  // Fails what is under way and leaves. Idempotent.
  void abort() override;
  // As abort(), but does not wait: abort() is still due.
  void give_up();

  // What the transport of this rank has counted; empty in a group of one.
  virtual Counts counters() const = 0;
  virtual std::size_t values_per_fragment() const { return 0; }
  // Whom the oldest operation waits for, if it has for a second.
  virtual std::optional<WaitedForRanks> waited_for() const { return std::nullopt; }

  // Why a group that was to choose for itself sums as it does; empty where it was told. Set before
  // anybody else knows the group.
  const std::string& choice() const { return choice_; }
  void set_choice(std::string text) { choice_ = std::move(text); }

 protected:
  // Every final class calls it first thing in its destructor: leaves; what is under way fails.
  void stop();

  // Each of them is idempotent.
  virtual void leave_transport() = 0;
  virtual void abort_transport() = 0;
  virtual void give_up_transport() = 0;
  // No operation is under way afterwards.
  virtual void destroy_transport() = 0;

 private:
  const c10::intrusive_ptr<Options> options_;
  std::string choice_;
};

// The reductions that the transports know: sums, with something done before or after.
bool is_linear(const c10d::ReduceOp& op);
// What makes one operation of several tensors: their values side by side, and how many each has.
std::vector<std::size_t> lengths_of(at::TensorList tensors);
at::Tensor one_buffer(Buffers& buffers, const std::vector<at::Tensor>& tensors);
// What the transport does of one that they know; the buffers of the work do the rest.
Reduction reduction_of(const c10d::ReduceOp& op, const std::vector<at::Tensor>& tensors,
                       Buffers& buffers, int ranks);

}  // namespace atp::pytorch
