#include "atp/sim/economy.h"

#include <algorithm>

#include "atp/base/check.h"

namespace atp::sim {
namespace {

using S = SwitchCounter;
using P = ServerCounter;
using W = WorkerCounter;

// What one lost packet may cost at most, in addition to the same run without loss. Each bound is
// about twice what the worst of 20,000 seeds needed.
constexpr std::uint64_t kMaxWindow = 8;  // of the worlds that are judged (make_ample() in draw.cc)
// Per rank. In so small a window three later answers rarely overtake a loss, so the timer must
// repair it. A fragment that it repeats gives no sample of the round trip. So the timers stay short
// for a while, and fire whenever the application of a rank is late.
constexpr std::uint64_t kRepeatsPerLoss = 12;
constexpr std::uint64_t kPassesPerLoss = 8;  // per rank: a window that waited for it
constexpr std::uint64_t kAsksPerLoss = 4;    // FLUSH and NACK
// A peer's packets on another path may look like a loss, once in a few thousand worlds without
// loss.
constexpr std::uint64_t kTakenForLosses = 1;
constexpr Duration kTimePerLoss = std::chrono::milliseconds(120);
// If only one or two packets are in flight, losses hit the same one again, and its timer doubles.
constexpr Duration kTimePerLossOfTheOnlyPacket = std::chrono::milliseconds(240);
// Until a JOIN is repeated, and at the end the only fragment that is left, whose timer earlier
// losses have doubled up to a second.
constexpr Duration kTimeOnce = std::chrono::milliseconds(1000);

template <class Counter>
std::uint64_t sum_of(const Counters<Counter>& counters, std::initializer_list<Counter> names) {
  std::uint64_t sum = 0;
  for (const Counter name : names) sum += counters[name];
  return sum;
}

bool all_have_switches(const Plan& plan) {
  return std::all_of(plan.jobs.begin(), plan.jobs.end(), [&](const JobPlan& job) {
    for (Rank rank = 0; rank < job.world_size; ++rank) {
      if (!plan.switches_of(job, rank).empty()) return true;
    }
    return false;
  });
}

class Judge {
 public:
  explicit Judge(const World& world)
      : plan_(world.plan()),
        switches_(world.switch_counters()),
        servers_(world.server_counters()),
        workers_(world.worker_counters()),
        losses_(world.faults()[Fault::kLoss] + kTakenForLosses) {
    ATP_CHECK(plan_.server_config.wmax <= kMaxWindow);
    for (const JobPlan& job : plan_.jobs) {
      most_ranks_ = std::max<std::uint64_t>(most_ranks_, job.world_size);
      most_streams_ = std::max<std::uint64_t>(most_streams_, job.stream_count);
    }
  }

  std::vector<std::string> found() && { return std::move(found_); }

  void judge_workers() {
    at_most("repeats of workers",
            sum_of(workers_,
                   {W::kRepeatsPlain, W::kRepeatsResend, W::kRepeatsDirect, W::kRepeatsFloat}),
            kRepeatsPerLoss * most_ranks_ * losses_);
    // A rank's straight JOIN tells the server the source of its direct packets. If it is lost, the
    // floats of every stream wait for its repeat, each with a timer of its own.
    const std::uint64_t timers = std::max<std::uint64_t>(2, most_streams_);
    at_most("time-outs of workers", workers_[W::kTimeouts], timers * most_ranks_ * losses_);
    // A rank whose window was cut is behind its peers, whose probes then get late answers. That
    // happens in every stream if its straight JOIN was lost and the server dropped its floats.
    at_most("losses that workers inferred", workers_[W::kLossesInferred],
            2 * most_streams_ * most_ranks_ * losses_);
    at_most("windows cut for losses", workers_[W::kWindowCutsLoss], 2 * most_ranks_ * losses_);
    at_most("windows cut for ECN", workers_[W::kWindowCutsEcn], 0);
    at_most("rooms cut", workers_[W::kRoomCuts], 0);
    at_most("detachments", workers_[W::kDetachments], losses_ / 4);
  }

  void judge_switches() {
    // A fragment has many places, and ten times as many aggregators as all windows can fill.
    at_most("collisions", switches_[S::kCollisions] + switches_[S::kForwardedOverQuota], 0);
    const std::uint64_t allowed = most_ranks_ * losses_ * kPassesPerLoss;
    at_most("gradients that passed a switch",
            sum_of(switches_, {S::kForwardedDetached, S::kForwardedBeyondLimit, S::kForwardedShape,
                               S::kForwardedOverlap, S::kForwardedLate, S::kForwardedResend,
                               S::kForwardedAfterCollision, S::kForwardedNoRegion}),
            allowed);
    at_most("partial sums sent",
            sum_of(switches_, {S::kPartialSumsSent, S::kFlushedSumsSent, S::kSweptSumsSent,
                               S::kDuplicatesReemitted}),
            allowed);
    at_most("aggregators reclaimed", switches_[S::kReclaims], losses_);
  }

  void judge_servers() {
    const std::uint64_t fragments = servers_[P::kFragmentsCompleted];
    const std::uint64_t in_network = fragments - servers_[P::kFragmentsCompletedFloat];
    const std::uint64_t least = servers_[P::kFragmentsCompletedInLeastPackets];
    // A rank whose JOIN_ACK was lost starts, or is a member of its switch, when its JOIN is
    // repeated. Until then the switches cannot sum what is in the windows, and the server asks for
    // all of it, and flushes it out of them.
    const bool may_be_late = losses_ > kTakenForLosses;
    const std::uint64_t late = may_be_late ? 2 * window_of_all_streams() : 0;
    const std::uint64_t unsummed =
        may_be_late ? window_of_all_streams()
                    : std::min(window_of_all_streams(), workers_[W::kDropNotJoined]);
    if (all_have_switches(plan_)) {
      at_most("fragments that the switches did not sum", in_network - least,
              4 * losses_ + unsummed);
    }
    // A loss that only a timer notices holds up the window, and the server asks for each fragment.
    const std::uint64_t held_up = std::max<std::uint64_t>(most_ranks_, plan_.server_config.wmax);
    at_most("FLUSHes and NACKs", servers_[P::kFlushes] + servers_[P::kNacks],
            late + kAsksPerLoss * held_up * losses_);
    at_most("PARAMETERs repeated", servers_[P::kParametersRepeated],
            kPassesPerLoss * most_ranks_ * losses_);
  }

  void judge_time(Duration took, Duration without_loss) {
    const Duration per_loss =
        plan_.server_config.wmax <= 2 ? kTimePerLossOfTheOnlyPacket : kTimePerLoss;
    const Duration allowed =
        without_loss + kTimeOnce + static_cast<std::int64_t>(losses_) * per_loss;
    if (took <= allowed) return;
    at_most("ms until all were done", milliseconds_of(took), milliseconds_of(allowed));
  }

 private:
  std::uint64_t window_of_all_streams() const { return most_streams_ * plan_.server_config.wmax; }
  static std::uint64_t milliseconds_of(Duration time) {
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::milliseconds>(time).count());
  }

  void at_most(const char* what, std::uint64_t found, std::uint64_t allowed) {
    if (found <= allowed) return;
    found_.push_back("wasteful: " + std::to_string(found) + " " + what + ", at most " +
                     std::to_string(allowed) + " with " + std::to_string(losses_) + " losses");
  }

  const Plan& plan_;
  Counters<SwitchCounter> switches_;
  Counters<ServerCounter> servers_;
  Counters<WorkerCounter> workers_;
  std::uint64_t losses_;
  std::uint64_t most_ranks_ = 0;
  std::uint64_t most_streams_ = 0;
  std::vector<std::string> found_;
};

}  // namespace

Plan without_loss(Plan plan) {
  plan.path_faults.clear();
  plan.heal = Duration{0};
  return plan;
}

std::vector<std::string> wastes(const World& world, Duration took) {
  if (!world.plan().ample) return {};
  Judge judge(world);
  judge.judge_workers();
  judge.judge_switches();
  judge.judge_servers();
  if (!world.plan().path_faults.empty()) {
    World dry(without_loss(world.plan()));
    dry.run_to_completion();
    judge.judge_time(took, dry.now().time_since_epoch());
  }
  return std::move(judge).found();
}

}  // namespace atp::sim
