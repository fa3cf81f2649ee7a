#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "atp/collective/base/options.h"
#include "atp/collective/base/transport.h"
#include "atp/collective/base/uplink.h"
#include "atp/collective/shm/engine.h"
#include "atp/driver/udp/running_clock.h"

namespace atp {

// A communicator's path through the memory of its host.
//
// The engine is driven by the transport's thread, or by the caller of an operation that waits for
// it anyway: that avoids waking another thread, which takes longer than a small sum. Whoever holds
// driving_ is the driver, and does all the thread's work, including that for other callers'
// operations.
//
// If the job has several hosts, the leader of this one connects it with the others, before there
// are operations.
class ShmTransport final : public TransportWithThread<ThreadReport<HostCounters>>,
                           public std::enable_shared_from_this<ShmTransport> {
 public:
  static Result<std::shared_ptr<ShmTransport>> open(const CommunicatorOptions& options,
                                                    HostPlace place);
  ShmTransport(const CommunicatorOptions& options, HostPlace place, std::unique_ptr<Waker> waker);

  // The three outcomes at the leader: it has met the other leaders and all have memory; not all
  // have memory; or it has not met them.
  void lead(std::unique_ptr<HostUplink> uplink);
  void say_without_memory();
  void give_up_rendezvous(const std::string& why);
  // For the others: waits for the leader's verdict.
  Result<bool> hear_of_leaders();

  Status wait_until_joined() override { return ok_status(); }
  std::optional<std::string> submit(std::shared_ptr<PendingOperation> operation) override;
  void help(PendingOperation& operation) override;
  Status shutdown(std::chrono::steady_clock::time_point until,
                  std::chrono::milliseconds timeout) override;
  void abort(const std::string& why) override;
  std::size_t value_count() const override { return 0; }
  CounterList counters() const override;
  std::optional<WaitedForRanks> waited_for() const override;
  std::map<Rank, Duration> waits() const override;

 private:
  void run();
  // Everything below requires driving_.
  void round();
  std::vector<EndedOperation<PendingOperation>> take_ended();
  std::optional<WaitedForRanks> engine_waits(std::chrono::steady_clock::time_point now) const;
  void record_waits();
  bool is_busy() const { return !pending_.empty(); }

  const CommunicatorOptions options_;
  std::mutex driving_;
  HostEngine engine_;
  RunningClock clock_;  // of the driving thread; idle time does not count
  // Only at the leader, with several hosts. Destroyed before the engine, whose memory it writes to.
  std::unique_ptr<HostUplink> uplink_;
  std::deque<std::shared_ptr<PendingOperation>> pending_;  // oldest first
  bool left_ = false;
  RankSet waited_for_;  // for a second or more, when last seen
};

}  // namespace atp
