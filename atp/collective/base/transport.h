#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "atp/base/failure_kind.h"
#include "atp/collective/base/pending_operation.h"
#include "atp/collective/base/request.h"
#include "atp/collective/base/transport_thread.h"

namespace atp {

// A path for a communicator's operations: through a server (NetworkTransport), in the memory of the
// host that all ranks share (ShmTransport), or from rank to rank over TCP (peers_transport.h).
class Transport {
 public:
  virtual ~Transport() = default;

  virtual Status wait_until_joined() = 0;
  // Accepts the operation, or returns why it cannot.
  virtual std::optional<std::string> submit(std::shared_ptr<PendingOperation> operation) = 0;
  // Gives an operation that may take this path its place in the order in which all ranks submit to
  // it. If it then takes another path, skip() says so.
  virtual void reserve(PendingOperation& /*operation*/) {}
  virtual void skip(const PendingOperation& /*operation*/) {}
  // The caller of an operation that was submitted `here` has nothing else to do: if any thread can
  // drive this path, the caller carries the operation out.
  virtual void help(PendingOperation& /*operation*/) {}
  // Like the communicator's. `until` is now + `timeout`; `timeout` is only for the message.
  virtual Status shutdown(std::chrono::steady_clock::time_point until,
                          std::chrono::milliseconds timeout) = 0;
  virtual void abort(const std::string& why) = 0;
  // False: at `until` there were still operations in flight.
  virtual bool wait_until_idle(std::chrono::steady_clock::time_point until) = 0;
  // Starts an abort() without waiting, from any thread, even its own; abort() must still follow.
  virtual void give_up(const std::string& why) = 0;

  // Why this path has failed, if it has.
  virtual std::optional<std::string> failure() const = 0;
  // kNone for a failure that this path did not find itself.
  virtual FailureKind failure_kind() const = 0;
  virtual std::size_t value_count() const = 0;  // K; 0 if this path sends no fragments
  virtual CounterList counters() const = 0;
  virtual std::optional<WaitedForRanks> waited_for() const { return std::nullopt; }
  virtual std::map<Rank, Duration> waits() const { return {}; }
  virtual bool on_own_thread() const = 0;
};

// The reason for which operations fail and ranks leave after a shutdown.
inline constexpr const char* kShutDown = "the communicator was shut down";

// A path with its own thread, which publishes a Report for its callers.
template <class Report>
class TransportWithThread : public Transport {
 public:
  bool wait_until_idle(std::chrono::steady_clock::time_point until) final {
    return thread_.wait_until_idle(until);
  }
  void give_up(const std::string& why) final { thread_.give_up(why); }
  std::optional<std::string> failure() const final { return thread_.failure(); }
  FailureKind failure_kind() const final { return thread_.failure_kind(); }
  bool on_own_thread() const final { return thread_.on_own_thread(); }

 protected:
  using Thread = TransportThread<PendingOperation, Report>;

  explicit TransportWithThread(std::unique_ptr<Waker> waker)
      : thread_(std::move(waker), kShutDown) {}

  Thread thread_;
};

}  // namespace atp
