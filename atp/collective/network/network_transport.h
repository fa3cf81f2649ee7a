#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "atp/collective/base/closed_in_child.h"
#include "atp/collective/base/options.h"
#include "atp/collective/base/request.h"
#include "atp/collective/base/transport.h"
#include "atp/collective/network/fail_together.h"
#include "atp/collective/network/last_will.h"
#include "atp/collective/network/worker_session.h"
#include "atp/driver/keys/keyring.h"
#include "atp/driver/udp/counters.h"
#include "atp/driver/udp/socket.h"
#include "atp/driver/udp/waker.h"

namespace atp {

// What is left of join_timeout for one stage of connect(). Never less than a stage needs to be told
// whom it waits for: otherwise it would blame another.
std::chrono::milliseconds left_to_join(const CommunicatorOptions& options);

struct NetworkTransportOptions {
  CommunicatorOptions communicator;  // with this transport's route
  std::uint16_t shard = 0;           // the server that it leads to
  std::uint64_t nonce = 0;           // one for all transports of a rank
  std::shared_ptr<FailTogether> fail_together =
      std::make_shared<FailTogether>();  // of all transports of a rank
};

// What callers can read about a transport's worker.
struct NetworkTransportReport {
  SessionPhase phase = SessionPhase::kJoining;
  std::uint16_t value_count = 0;
  Counters<WorkerCounter> worker_counters;
  UdpCounters udp_counters;
  std::optional<WaitedForRanks> waited_for;
  std::shared_ptr<const SlowRank::Waits> waits;
};

// A communicator's path to one server: a worker with its socket, and the thread that drives it.
//
// The thread owns session_ and the event loop. It and its callers exchange data through
// thread_.
class NetworkTransport final : public TransportWithThread<NetworkTransportReport>,
                               public std::enable_shared_from_this<NetworkTransport> {
 public:
  // Opens the socket and starts the thread, which begins to join.
  static Result<std::shared_ptr<NetworkTransport>> open(const NetworkTransportOptions& options);
  NetworkTransport(const NetworkTransportOptions& options, std::uint16_t value_count,
                   UdpSocket socket, std::unique_ptr<Waker> waker);

  Status wait_until_joined() override;
  std::optional<std::string> submit(std::shared_ptr<PendingOperation> operation) override {
    return thread_.submit(std::move(operation));
  }
  Status shutdown(std::chrono::steady_clock::time_point until,
                  std::chrono::milliseconds timeout) override;
  void abort(const std::string& why) override;
  std::size_t value_count() const override { return thread_.report().value_count; }
  CounterList counters() const override;
  std::optional<WaitedForRanks> waited_for() const override { return thread_.report().waited_for; }
  std::map<Rank, Duration> waits() const override;

 private:
  void run();
  template <class Step>
  void guarded(const Step& step);
  // True: there is more to do at once.
  bool carry_out_commands(Instant now, const UdpCounters& udp_counters);

  const CommunicatorOptions options_;
  const std::shared_ptr<FailTogether> fail_together_;
  UdpSocket socket_;
  const ClosedInChild closed_in_child_;
  std::optional<Keyring> keys_;
  const LastWill will_;
  WorkerSession session_;
  Instant now_{};  // in the latest round
};

}  // namespace atp
