#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "atp/collective/communicator.h"
#include "atp/collective/host/uplink.h"
#include "atp/collective/hosts.h"

namespace atp {

// A leader among the leaders of all hosts: they are the job's workers in the network, one per host,
// and combine words of int32.
class LeaderUplink final : public HostUplink {
 public:
  // `options` are those of a rank that leads its host. Blocks until all leaders have joined.
  static Result<std::unique_ptr<LeaderUplink>> connect(const CommunicatorOptions& options);

  // Returns true if every leader calls it with true. `options`: as for connect(); one join_timeout
  // bounds both.
  Result<bool> agree(bool mine, const CommunicatorOptions& options);

  void combine(const Words& words, std::function<void(bool)> ended) override;
  std::optional<std::string> failure() const override;
  FailureKind failure_kind() const override { return communicator_->failure_kind(); }
  std::optional<WaitedForRanks> waited_for() const override { return communicator_->waited_for(); }
  void give_up(const std::string& why) override { communicator_->give_up(why); }

  Status shutdown(std::chrono::milliseconds timeout) { return communicator_->shutdown(timeout); }
  void abort(const std::string& why) { communicator_->abort(why); }
  CounterList counters() const { return communicator_->counters(); }
  std::map<Rank, Duration> waits() const { return communicator_->waits(); }

 private:
  explicit LeaderUplink(std::unique_ptr<Communicator> communicator)
      : communicator_(std::move(communicator)) {}
  void note(const std::string& failure);

  mutable std::mutex mutex_;
  std::optional<std::string> failure_;
  const std::unique_ptr<Communicator> communicator_;
};

}  // namespace atp
