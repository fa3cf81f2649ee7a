#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "atp/base/failure_kind.h"
#include "atp/base/rank_set.h"
#include "atp/base/result.h"
#include "atp/base/time.h"
#include "atp/collective/base/request.h"
#include "atp/collective/waits/late_ranks.h"
#include "atp/wire/number_format.h"

namespace atp {

// The connection of a host's leader, its lowest rank, to the leaders of the job's other hosts. All
// of them combine the same words in the same order.
class HostUplink {
 public:
  struct Words {
    std::int32_t* at = nullptr;
    std::size_t count = 0;
    Reduction reduction = Reduction::kSum;  // or kMax
    std::uint32_t tag = 0;                  // identifies the operation: a mismatch is reported
    std::optional<UserOperation> of;        // absent: none, the leaders agree on something
    std::chrono::milliseconds timeout{0};   // without progress
  };

  virtual ~HostUplink() = default;

  // Replaces the words with those of all hosts, combined. `ended` is called once, on any thread,
  // perhaps within this call, with true if that succeeded; otherwise failure() has the reason.
  virtual void combine(const Words& words, std::function<void(bool)> ended) = 0;
  // Why combining has failed, if it has.
  virtual std::optional<std::string> failure() const = 0;
  virtual FailureKind failure_kind() const = 0;
  // For whom it has waited for a second, by their numbers in the job.
  virtual std::optional<WaitedForRanks> waited_for() const = 0;
  // Tells the others without waiting.
  virtual void give_up(const std::string& why) = 0;
  // The same as of a transport (transport.h).
  virtual Status shutdown(std::chrono::milliseconds timeout) = 0;
  virtual void abort(const std::string& why) = 0;
  virtual CounterList counters() const = 0;
  virtual std::map<Rank, Duration> waits() const = 0;
};

}  // namespace atp
