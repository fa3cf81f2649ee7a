#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "atp/base/rank_set.h"
#include "atp/core/worker/worker_api.h"
#include "atp/wire/packet_view.h"

// What a world consists of, and how much may go wrong in it. A world is so small that all orders of
// its events can be explored: a few ranks, one or two switches with up to three aggregators, one
// server, one to three fragments of one value.

namespace atp::explore {

// How often each fault may still happen. A timer that fires on a silent network is not a fault.
struct Budgets {
  std::uint8_t losses = 0;
  std::uint8_t duplicates = 0;
  std::uint8_t early_timers = 0;  // the next timer fires while packets are in flight
  std::uint8_t late_nodes = 0;    // a timer fires before earlier ones of other nodes
  std::uint8_t restarts = 0;      // a switch forgets everything
  std::uint8_t unreachable = 0;   // ICMP reports to a worker that its switch is gone

  bool operator==(const Budgets&) const = default;
};

enum class Inputs : std::uint8_t {
  kSmall,       // every sum fits
  kOverflowing  // the first fragment's sum with the fixed scale does not
};

// One job; `ways`: the switches upward of each rank, the first hop first.
struct JobPlan {
  JobKey key{1, 1};
  std::vector<std::vector<std::uint32_t>> ways;
  NumberFormat format = NumberFormat::kFixed;
  DataType type = DataType::kInt32;
  Inputs inputs = Inputs::kSmall;
  std::vector<std::uint64_t> operations;  // their lengths, all submitted at once

  std::uint16_t world_size() const { return static_cast<std::uint16_t>(ways.size()); }
  std::uint16_t stream_count() const { return format == NumberFormat::kFixed ? 1 : 2; }
};

struct Plan {
  std::string name;
  std::string about;
  std::vector<JobPlan> jobs;
  std::uint32_t switches = 1;
  std::uint32_t aggregators = 1;  // of each switch
  std::uint32_t places = 1;       // of a fragment among them
  std::uint32_t quota = 0;        // of aggregators, for each job; 0: none
  std::uint32_t wmax = 2;
  std::uint16_t values_per_fragment = 1;
  Budgets budgets;
  // A note that is still needed may be overwritten, so that a rank waits for a timer although
  // nothing has gone wrong.
  bool may_wait = false;
  std::size_t test_states =
      0;  // how many states the tests visit: at least this, at most twice as many

  // Whether no aggregator is held once all is done. Another job or stream or a restart may
  // overwrite the note by which a switch recognizes a late packet, and it misses what goes
  // straight.
  bool ends_clean() const {
    return jobs.size() == 1 && jobs[0].stream_count() == 1 && budgets.restarts == 0 &&
           budgets.unreachable == 0;
  }
};

// The worlds of the tests and of `atp_explore`, the simplest first.
const std::vector<Plan>& known_worlds();
// Null if there is no world of that name.
const Plan* find_world(std::string_view name);

// The tensors of a job: each rank's input, and the expected result.
class JobData {
 public:
  explicit JobData(const JobPlan& plan);

  const JobPlan& plan() const { return plan_; }
  OperationSpec spec(OperationId id) const;
  std::span<const std::byte> input(Rank rank, OperationId id) const { return inputs_[rank][id]; }
  std::span<const std::byte> expected(OperationId id) const { return expected_[id]; }
  const BlockLayout& layout(OperationId id) const { return layouts_[id]; }

 private:
  JobPlan plan_;
  std::vector<std::vector<std::vector<std::byte>>> inputs_;  // by rank and operation
  std::vector<std::vector<std::byte>> expected_;
  std::vector<BlockLayout> layouts_;
};

}  // namespace atp::explore
