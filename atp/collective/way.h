#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "atp/collective/communicator.h"
#include "atp/collective/operation_thread.h"
#include "atp/collective/pending_operation.h"

namespace atp {

// A way on which a communicator's operations are carried out: through a server (Lane), or in the
// memory of the host that all ranks share (HostLane).
class Way {
 public:
  virtual ~Way() = default;

  virtual Status wait_until_joined() = 0;
  // Takes the operation, or says why it takes none.
  virtual std::optional<std::string> submit(std::shared_ptr<PendingOperation> operation) = 0;
  // The caller of an operation that was submitted `here` has nothing else to do: where the way can
  // be gone by any thread, it carries the operation out.
  virtual void help(PendingOperation& /*operation*/) {}
  // As the communicator's; `timeout` is what `until` came from, for the text.
  virtual Status shutdown(std::chrono::steady_clock::time_point until,
                          std::chrono::milliseconds timeout) = 0;
  virtual void abort(const std::string& why) = 0;
  // False: at `until` there were still operations in flight.
  virtual bool wait_until_idle(std::chrono::steady_clock::time_point until) = 0;
  // As abort(), but from any thread, also its own, and without waiting: abort() is still due.
  virtual void give_up(const std::string& why) = 0;

  // Why nothing more can be summed here.
  virtual std::optional<std::string> failure() const = 0;
  virtual std::size_t value_count() const = 0;  // K; 0: nothing travels in fragments
  virtual CounterList counters() const = 0;
  virtual std::optional<WaitedForRanks> waited_for() const { return std::nullopt; }
  virtual bool on_own_thread() const = 0;
};

// Why a communicator's operations fail, and its ranks leave, once it has been shut down.
inline constexpr const char* kShutDown = "the communicator was shut down";

// A way with a thread, which tells its callers a Report.
template <class Report>
class WayWithThread : public Way {
 public:
  bool wait_until_idle(std::chrono::steady_clock::time_point until) final {
    return thread_.wait_until_idle(until);
  }
  void give_up(const std::string& why) final { thread_.give_up(why); }
  std::optional<std::string> failure() const final { return thread_.failure(); }
  bool on_own_thread() const final { return thread_.on_own_thread(); }

 protected:
  using Thread = OperationThread<PendingOperation, Report>;

  explicit WayWithThread(std::unique_ptr<Waker> waker) : thread_(std::move(waker), kShutDown) {}

  Thread thread_;
};

}  // namespace atp
