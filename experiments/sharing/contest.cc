#include "experiments/sharing/contest.h"

#include <algorithm>
#include <functional>
#include <memory>

#include "atp/base/random.h"
#include "atp/sim/world.h"
#include "atp/wire/packet_view.h"

namespace atp::sharing {
namespace {

Duration microseconds(double us) { return Duration{static_cast<Duration::rep>(us * 1000)}; }

double in_microseconds(Duration time) { return static_cast<double>(time.count()) / 1000; }

// The entry of a job, or the last one.
template <class T>
T of_job(const std::vector<T>& list, std::uint32_t job) {
  return list[std::min<std::size_t>(job, list.size() - 1)];
}

// The racks of the paper's Fig. 9, or a single one.
void place(const Setup& setup, sim::JobPlan& job) {
  for (Rank rank = 0; rank < job.world_size; ++rank) {
    const std::uint32_t rack = rank * setup.racks / job.world_size;
    job.rack.push_back(rack);
    job.parent.push_back(setup.levels == 0 ? -1 : static_cast<int>(rack));
  }
  const int last = static_cast<int>(setup.racks) - 1;
  for (int rack = 0; rack <= last; ++rack) {
    job.uplink.push_back(setup.levels == 2 && rack < last ? last : -1);
  }
}

CongestionPolicy congestion_of(const Setup& setup) {
  if (!setup.aimd) return CongestionPolicy::kNone;
  return setup.halve ? CongestionPolicy::kPaper : CongestionPolicy::kAimd;
}

std::uint32_t number_of(const Setup& setup, std::uint32_t index) {
  return static_cast<std::uint32_t>((setup.seed - 1) * 1000 + index + 1);
}

sim::JobPlan job_of(const Setup& setup, std::uint32_t index) {
  const double compute_us = of_job(setup.compute_us, index);
  sim::JobPlan job;
  job.key = {number_of(setup, index), 1};
  job.world_size = of_job(setup.workers, index);
  place(setup, job);
  job.max_value_count = setup.values;
  job.congestion = congestion_of(setup);
  job.data_seed = job.key.job;
  job.max_in_flight = compute_us > 0 ? 1 : setup.in_flight;
  job.pause = microseconds(compute_us);
  job.start.assign(job.world_size,
                   microseconds(index * setup.stagger_us + of_job(setup.late_us, index)));
  job.room = of_job(setup.room, index) != 0;
  job.plain_repeats = !setup.resend_only;
  job.tolerance = !setup.no_tolerance;
  sim::OperationPlan operation;
  operation.spec.count = std::uint64_t{of_job(setup.fragments, index)} * setup.values;
  operation.in_place = true;
  job.operations.assign(of_job(setup.operations, index), operation);
  return job;
}

// A snapshot of the counters.
struct Snapshot {
  Instant at{};
  std::vector<std::uint64_t> operations;  // completed, by job
  Counters<ServerCounter> server;
  Counters<SwitchCounter> switches;
  Counters<WorkerCounter> workers;
};

double repeats_of(const Snapshot& snapshot) {
  double repeats = 0;
  for (const auto counter : {WorkerCounter::kRepeatsPlain, WorkerCounter::kRepeatsResend,
                             WorkerCounter::kRepeatsDirect, WorkerCounter::kRepeatsFloat}) {
    repeats += static_cast<double>(snapshot.workers[counter]);
  }
  return repeats;
}

class Contest {
 public:
  explicit Contest(const Setup& setup)
      : setup_(setup),
        world_(plan_of(setup)),
        losses_(setup.seed),
        in_switch_by_job_(setup.jobs),
        completed_ps_(setup.jobs) {
    for (std::uint32_t job = 0; job < setup.jobs; ++job) {
      firsts_.push_back(&world_.application(0, job));
      lossy_.push_back(world_.endpoint(world_.worker_host(0, job)));
    }
    if (setup.loss > 0 || setup.split_jobs) {
      world_.set_tap([this](const sim::Packet& packet) { return on_packet(packet); });
    }
  }

  Report play() {
    if (setup_.sample_us > 0) sample();
    run_until([this] { return all_did(3); });
    const Snapshot begin = snapshot();
    run_until([this] { return one_is_done(); });
    const Snapshot end = snapshot();
    is_over_ = true;
    run_until([this] { return all_did(1); });
    world_.run_to_completion();
    if (!world_.all(&sim::Application::finished)) unfinished_ = world_.unfinished();
    world_.check_release();
    world_.check_departure();
    return {result(begin, end), series_, completed_ps_};
  }

 private:
  void run_until(const std::function<bool()>& done) {
    world_.run(std::chrono::seconds(100), [&] {
      note_completions();
      return done();
    });
  }

  void note_completions() {
    for (std::uint32_t job = 0; job < setup_.jobs; ++job) {
      completed_ps_[job].resize(firsts_[job]->completed(), world_.network().now());
    }
  }

  // Whether a job has done its operations, or this part of them.
  bool did(std::uint32_t job, std::uint32_t part) const {
    return firsts_[job]->completed() >= of_job(setup_.operations, job) / part;
  }
  bool all_did(std::uint32_t part) const {
    for (std::uint32_t job = 0; job < setup_.jobs; ++job) {
      if (!did(job, part)) return false;
    }
    return true;
  }
  bool one_is_done() const {
    for (std::uint32_t job = 0; job < setup_.jobs; ++job) {
      if (did(job, 1)) return true;
    }
    return false;
  }

  sim::Verdict on_packet(const sim::Packet& packet) {
    if (setup_.split_jobs && packet.to == world_.endpoint(world_.server_host())) count(packet);
    const bool near = std::ranges::find(lossy_, packet.from) != lossy_.end() ||
                      std::ranges::find(lossy_, packet.to) != lossy_.end();
    return {.drop = setup_.loss > 0 && near && losses_.chance(setup_.loss)};
  }

  // Counts the fragments that reach the server as one packet.
  void count(const sim::Packet& packet) {
    const ParsedPacket parsed = parse_packet(packet.bytes);
    if (!parsed.ok() || parsed.view().type() != PacketType::kGradient) return;
    const std::uint64_t job = parsed.view().header.job - world_.plan().jobs[0].key.job;
    const std::size_t all = world_.plan().jobs[job].world_size;
    if (parsed.view().ranks.size() == all) ++in_switch_by_job_[job];
  }

  Snapshot snapshot() {
    Snapshot now{world_.now(),
                 {},
                 world_.server_counters(),
                 world_.switch_counters(),
                 world_.worker_counters()};
    for (const sim::Application* first : firsts_) now.operations.push_back(first->completed());
    return now;
  }

  void sample() {
    const Counters<ServerCounter>& counters = world_.server().counters();
    const std::uint64_t fragments = counters[ServerCounter::kFragmentsCompleted];
    const std::uint64_t in_switch = counters[ServerCounter::kFragmentsCompletedByOnePacket];
    series_.push_back({in_microseconds(world_.now().time_since_epoch()), fragments - fragments_,
                       in_switch - in_switch_, in_switch_by_job_});
    std::fill(in_switch_by_job_.begin(), in_switch_by_job_.end(), 0);
    fragments_ = fragments;
    in_switch_ = in_switch;
    if (is_over_) return;
    world_.at(world_.now() + microseconds(setup_.sample_us), [this] { sample(); });
  }

  Result result(const Snapshot& begin, const Snapshot& end) const {
    Result result;
    const double us = in_microseconds(end.at - begin.at);
    result.measured_us = us;
    result.goodput.assign(setup_.jobs, 0);
    result.wrong = world_.violations();
    if (!unfinished_.empty()) result.wrong.push_back(unfinished_);
    if (us == 0) return result;
    for (std::uint32_t job = 0; job < setup_.jobs; ++job) {
      const double bits = 32.0 * setup_.values * of_job(setup_.fragments, job);
      const auto done = static_cast<double>(end.operations[job] - begin.operations[job]);
      result.goodput[job] = done * bits / us / 1000;
    }
    const auto risen = [&](const auto& counters, auto counter) {
      return static_cast<double>((end.*counters)[counter] - (begin.*counters)[counter]);
    };
    const double fragments = risen(&Snapshot::server, ServerCounter::kFragmentsCompleted);
    const auto each = [&](const auto& counters, auto counter) {
      return risen(counters, counter) / fragments;
    };
    result.share_in_switch = each(&Snapshot::server, ServerCounter::kFragmentsCompletedByOnePacket);
    result.packets_to_server = each(&Snapshot::server, ServerCounter::kGradientsReceived);
    result.collisions = each(&Snapshot::switches, SwitchCounter::kCollisions);
    result.over_quota = each(&Snapshot::switches, SwitchCounter::kForwardedOverQuota);
    result.repeats = (repeats_of(end) - repeats_of(begin)) / fragments;
    result.marked = each(&Snapshot::workers, WorkerCounter::kParametersEcn);
    const auto cuts = [&](WorkerCounter counter) {
      return end.workers[counter] - begin.workers[counter];
    };
    result.window_cuts = cuts(WorkerCounter::kWindowCutsEcn);
    result.room_cuts = cuts(WorkerCounter::kRoomCuts);
    return result;
  }

  Setup setup_;
  sim::World world_;
  Random losses_;
  std::vector<Endpoint> lossy_;  // rank 0 of each job
  std::vector<std::uint64_t> in_switch_by_job_;
  std::vector<const sim::Application*> firsts_;  // rank 0 of each job
  std::vector<Sample> series_;
  std::vector<std::vector<std::int64_t>> completed_ps_;
  std::uint64_t fragments_ = 0;
  std::uint64_t in_switch_ = 0;
  bool is_over_ = false;
  std::string unfinished_;
};

// The product's timers are meant for ordinary hosts, whose answers take milliseconds. Here a round
// trip is 5 µs: with the product's 2 ms a stall would cost as much as forty thousand fragments. The
// paper's testbed treated the third later answer as a loss immediately, and had a timer of 1 ms.
Timing fast_timing() {
  Timing timing;
  timing.reorder_min = std::chrono::microseconds(5);
  timing.rto_initial = timing.rto_min = std::chrono::milliseconds(1);
  timing.flush_after = std::chrono::microseconds(100);
  timing.nack_after = std::chrono::microseconds(50);
  timing.answer_pause = std::chrono::microseconds(50);
  timing.reclaim = std::chrono::milliseconds(10);
  timing.sweep = std::chrono::milliseconds(2);
  return timing;
}

// The weight of each job, as from a cluster file.
std::shared_ptr<const sim::TenantQuotas> quotas_of(const Setup& setup) {
  if (setup.weights.empty()) return nullptr;
  auto quotas = std::make_shared<sim::TenantQuotas>();
  for (std::uint32_t job = 0; job < setup.jobs; ++job) {
    quotas->weights[{number_of(setup, job), 0}] = of_job(setup.weights, job);
  }
  return quotas;
}

}  // namespace

sim::Plan plan_of(const Setup& setup) {
  sim::Plan plan;
  plan.seed = setup.seed;
  plan.timing = fast_timing();
  plan.switch_config.aggregators = setup.aggregators;
  plan.switch_config.max_value_count = setup.values;
  plan.switch_config.sharing.partitions = setup.partition ? setup.jobs : 0;
  plan.switch_config.sharing.quota = setup.quota;
  plan.switch_config.sharing.first_come = setup.first_come;
  plan.switch_config.places = setup.places;
  plan.quotas = quotas_of(setup);
  plan.server_config.wmax = setup.window;
  plan.server_config.rehash = setup.placement == "rehash";
  // Values are within ±1. With the paper's scale, sums of more ranks than 21 would overflow, and
  // all values would go as floats.
  const double most = *std::max_element(setup.workers.begin(), setup.workers.end());
  plan.server_config.scale = std::min(plan.server_config.scale, 2e9 / most);
  if (setup.placement == "linear") {
    const std::uint32_t regions = setup.partition ? setup.jobs : 1;
    plan.server_config.placement.linear_aggregators =
        static_cast<std::uint16_t>(setup.aggregators / regions);
  }
  for (std::uint32_t job = 0; job < setup.jobs; ++job) plan.jobs.push_back(job_of(setup, job));
  const sim::LinkPlan link{.bits_per_s = 100'000'000'000,
                           .packet_time = std::chrono::nanoseconds(setup.host_ns),
                           .delay = microseconds(setup.delay_us),
                           .queue_bytes = setup.queue_bytes,
                           .ecn_bytes = setup.ecn_bytes};
  plan.fabric.worker = plan.fabric.server = link;
  plan.fabric.server.bits_per_s = static_cast<std::uint64_t>(setup.server_gbit * 1e9);
  plan.fabric.switch_node = {};
  plan.switches = setup.levels == 0 ? 0 : setup.racks;
  for (std::uint32_t rack = 0; rack < setup.racks; ++rack) plan.fabric.switch_rack.push_back(rack);
  plan.fabric.server_rack = {setup.racks - 1};
  if (setup.rack_gbit > 0) {
    plan.fabric.rack = {.bits_per_s = static_cast<std::uint64_t>(setup.rack_gbit * 1e9),
                        .delay = microseconds(setup.delay_us),
                        .queue_bytes = setup.queue_bytes,
                        .ecn_bytes = setup.ecn_bytes};
  }
  plan.bound = std::chrono::seconds(200);
  return plan;
}

Report play(const Setup& setup) { return Contest(setup).play(); }

}  // namespace atp::sharing
