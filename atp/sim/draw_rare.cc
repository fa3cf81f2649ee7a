// What only some seeds have.
#include <algorithm>

#include "atp/sim/draw.h"

namespace atp::sim {
namespace {

using std::chrono::milliseconds;

// A job whose bitmaps take two or three words.
void draw_many_ranks(Draw& draw, Plan& plan) {
  JobPlan job = plan.jobs.front();
  job.world_size = static_cast<std::uint16_t>(
      draw.chance(0.4) ? draw.one_of<std::uint64_t>({65, 128, 129, 130}) : draw.between(65, 130));
  if (job.number_format == NumberFormat::kBlocksInt16) job.number_format = NumberFormat::kBlocks;
  job.operations.resize(std::min<std::size_t>(job.operations.size(), draw.between(1, 3)));
  for (OperationPlan& operation : job.operations) {
    if (operation.spec.format == NumberFormat::kBlocksInt16) {
      operation.spec.format = NumberFormat::kBlocks;
    }
    const std::uint64_t most = 10 * std::uint64_t{job.max_value_count};
    operation.spec.count = std::min(operation.spec.count, most);
    operation.segments.clear();
  }
  job.own_value_counts.clear();
  job.start.clear();
  job.rack.clear();
  for (Rank rank = 0; rank < job.world_size; ++rank) {
    job.start.push_back(draw.time(Duration{0}, milliseconds(3)));
    job.rack.push_back(static_cast<std::uint32_t>(draw.between(0, 2)));
  }
  draw_tree(draw, plan, job);
  plan.jobs = {job};
  plan.server_config.wmax = std::min(plan.server_config.wmax, 16U);
}

// Packets of more values than two blocks have, so that a packet has values of three of them.
void draw_long_packets(Draw& draw, Plan& plan) {
  const auto k = static_cast<std::uint16_t>(draw.between(513, 1100));
  plan.server_config.max_value_count = k;
  plan.switch_config.max_value_count = draw.chance(0.8) ? k : 600;
  for (JobPlan& job : plan.jobs) {
    job.max_value_count = k;
    job.own_value_counts.clear();
    job.operations.resize(std::min<std::size_t>(job.operations.size(), 3));
    for (OperationPlan& operation : job.operations) {
      operation.spec.count = draw.between(1, 6 * std::uint64_t{k});
      operation.segments.clear();
      if (draw.chance(0.3))
        operation.segments = {operation.spec.count / 2,
                              operation.spec.count - operation.spec.count / 2};
    }
  }
}

}  // namespace

// Tenants, whose jobs share a quota, and jobs that begin while others end, so that their places in
// the tables are used again.
void draw_tenants(Plan& plan) {
  Draw draw(plan.seed ^ 0x7e4a'4715);
  if (!draw.chance(0.2)) return;
  // Short jobs, one after the other, besides those that the plan has already.
  const auto first = static_cast<std::uint32_t>(plan.jobs.size());
  const auto more = static_cast<std::uint32_t>(draw.between(2, 5));
  for (JobPlan& job : plan.jobs) job.leave_at_once |= draw.chance(0.5);
  for (std::uint32_t i = first; i < first + more; ++i) {
    JobPlan job = draw_job(draw, plan, i);
    job.leave_at_once = true;
    const Duration begin = (i - first) * draw.one_of<Duration>({milliseconds(1), milliseconds(50)});
    for (Duration& start : job.start) start += begin;
    if (draw.chance(0.5)) job.operations.resize(std::min<std::size_t>(job.operations.size(), 2));
    plan.jobs.push_back(std::move(job));
  }
  if (draw.chance(0.8)) {  // a job that has left gives up its place only if another needs it
    plan.switch_config.max_trees = static_cast<std::uint32_t>(draw.between(2, first + 2));
  }
  const bool limits_jobs = draw.chance(0.15);
  if (limits_jobs) plan.bound = std::chrono::seconds(90);
  const auto quotas = std::make_shared<TenantQuotas>();
  for (std::uint64_t i = draw.between(1, 3); i > 0; --i) {
    quotas->quotas.push_back(
        {.jobs = limits_jobs ? static_cast<std::uint32_t>(draw.between(0, 3)) : 0,
         .aggregators = static_cast<std::uint32_t>(draw.between(0, 4))});
  }
  for (std::size_t i = first; i < plan.jobs.size(); ++i) {
    const std::uint64_t least = draw.chance(0.2) ? 0 : 1;
    const std::uint64_t tenant = draw.between(least, quotas->quotas.size() - 1);
    plan.jobs[i].key.tenant = static_cast<std::uint16_t>(tenant);
  }
  plan.quotas = quotas;
}

// Switches of one tree that differ: a fragment's index then means another aggregator at each level,
// and a partition or a quota binds at some levels only.
void draw_unlike_switches(Plan& plan) {
  Draw draw(plan.seed ^ 0x0dd5'1b1e);
  if (plan.switches < 2 || !draw.chance(0.4)) return;
  for (std::uint32_t i = 0; i < plan.switches; ++i) {
    SwitchConfig config = plan.switch_config;
    config.aggregators = draw.one_of<std::uint32_t>({1, 2, 3, 7, 8, 64, 1024});
    config.sharing = {};
    if (draw.chance(0.3)) {
      const auto most = std::min<std::uint64_t>(3, config.aggregators);
      config.sharing.partitions = static_cast<std::uint32_t>(draw.between(1, most));
    }
    if (draw.chance(0.3)) config.sharing.quota = static_cast<std::uint32_t>(draw.between(1, 4));
    if (draw.chance(0.1)) {
      config.max_trees = static_cast<std::uint32_t>(draw.between(1, plan.jobs.size()));
    }
    plan.own_switch_configs.push_back(config);
  }
}

// How many places a fragment has at each switch, whether jobs are kept to their parts there, and
// the weights of tenants; which jobs have a room.
void draw_places(Plan& plan) {
  Draw draw(plan.seed ^ 0x91ac'e5e7);
  std::uint16_t last_tenant = 0;
  for (JobPlan& job : plan.jobs) {
    job.room = !draw.chance(0.25);
    last_tenant = std::max(last_tenant, job.key.tenant);
  }
  if (plan.switches > 1 && plan.own_switch_configs.empty() && draw.chance(0.5)) {
    plan.own_switch_configs.assign(plan.switches, plan.switch_config);
  }
  const auto draw_switch = [&](SwitchConfig& config) {
    config.places = draw.one_of<std::uint32_t>({1, 1, 2, 4, 8, 16, 16});
    config.sharing.first_come = draw.chance(0.3);
  };
  draw_switch(plan.switch_config);
  for (SwitchConfig& config : plan.own_switch_configs) draw_switch(config);
  if (last_tenant == 0) return;
  const auto quotas = std::make_shared<TenantQuotas>();
  if (plan.quotas) *quotas = *plan.quotas;
  quotas->quotas.resize(std::max<std::size_t>(quotas->quotas.size(), last_tenant + 1));
  for (std::size_t i = 1; i < quotas->quotas.size(); ++i) {
    quotas->quotas[i].weight = static_cast<std::uint32_t>(draw.between(1, 8));
  }
  plan.quotas = quotas;
}

// Which jobs have a weight of their own, as from a cluster file. The others have their tenant's.
void draw_weights(Plan& plan) {
  Draw draw(plan.seed ^ 0x3e19'4b0b);
  if (plan.jobs.size() < 2 || !draw.chance(0.3)) return;
  const auto quotas = std::make_shared<TenantQuotas>();
  if (plan.quotas) *quotas = *plan.quotas;
  for (const JobPlan& job : plan.jobs) {
    if (draw.chance(0.3)) continue;
    const auto weight = draw.one_of<std::uint32_t>({1, 2, 3, 8, 1000});
    quotas->weights[{job.key.job, job.key.tenant}] = weight;
  }
  plan.quotas = quotas;
}

// Which jobs' workers keep the paper's rules, as with ATP_CONGESTION=paper.
void draw_papers_rules(Plan& plan) {
  Draw draw(plan.seed ^ 0x5ec3'0037);
  for (JobPlan& job : plan.jobs) {
    if (!draw.chance(0.05)) continue;
    job.congestion = CongestionPolicy::kPaper;
    job.room = job.plain_repeats = job.tolerance = false;
  }
}

void draw_sizes(Plan& plan) {
  Draw draw(plan.seed ^ 0x0b16'512e);
  const std::uint64_t which = draw.between(0, 59);
  if (which < 2) draw_many_ranks(draw, plan);
  if (which == 2 || which == 3) draw_long_packets(draw, plan);
}

// One rank submits another operation than the others, or leaves.
void draw_discord(Plan& plan) {
  Draw draw(plan.seed ^ 0xd15c'04d5);
  if (!draw.chance(0.2)) return;
  JobPlan& job = plan.jobs[draw.between(0, plan.jobs.size() - 1)];
  if (job.world_size < 2) return;
  const auto rank = static_cast<Rank>(draw.between(0, job.world_size - 1U));
  const std::uint64_t at = draw.between(0, job.operations.size() - 1);
  plan.bound = std::chrono::seconds(90);
  if (draw.chance(0.5)) {
    job.abort = {rank, at};
    return;
  }
  OperationPlan operation = job.operations[at];
  if (operation.spec.count == 0) return;
  operation.spec.tag ^= 4;
  if (draw.chance(0.4)) {
    operation.spec.count = draw.between(1, 2 * operation.spec.count);
    operation.segments.clear();
  }
  job.own_operations.resize(job.world_size);
  job.own_operations[rank] = job.operations;
  job.own_operations[rank][at] = operation;
  job.deviator = rank;
}

void draw_address_changes(Plan& plan) {
  Draw draw(plan.seed ^ 0xadd2'e550);
  if (!draw.chance(0.12)) return;
  const std::uint32_t hosts = host_count(plan);
  for (std::uint64_t i = draw.between(1, 2); i > 0; --i) {
    const Instant at{draw.time(Duration{0}, plan.heal)};
    const auto worker =
        static_cast<std::uint32_t>(draw.between(plan.servers + plan.switches, hosts - 1));
    plan.outages.push_back({Outage::Kind::kMove, at, Duration{0}, worker, 0});
  }
}

// Switches that are dead, stopped or cut off for longer than a lease, while the jobs go on: ranks
// detach, return and detach again.
bool draw_long_outages(Plan& plan) {
  Draw draw(plan.seed ^ 0x104a'0a7e);
  if (plan.switches == 0 || !draw.chance(0.03)) return false;
  plan.heal = draw.time(std::chrono::seconds(7), std::chrono::seconds(25));
  for (std::uint64_t i = draw.between(1, 3); i > 0; --i) {
    const auto node = plan.servers + static_cast<std::uint32_t>(draw.between(0, plan.switches - 1));
    const auto peer = static_cast<std::uint32_t>(draw.between(0, host_count(plan) - 1));
    const Instant at{draw.time(Duration{0}, plan.heal - std::chrono::seconds(6))};
    const Duration length = draw.time(std::chrono::seconds(5), Instant{plan.heal} - at);
    const auto kind = draw.one_of(
        {Outage::Kind::kDeath, Outage::Kind::kDeath, Outage::Kind::kPause, Outage::Kind::kOneWay});
    plan.outages.push_back({kind, at, length, node, peer});
  }
  for (JobPlan& job : plan.jobs) {
    job.pause = plan.heal / static_cast<std::int64_t>(job.operations.size());
    job.max_in_flight = std::min(job.max_in_flight, 2U);
  }
  return true;
}

}  // namespace atp::sim
