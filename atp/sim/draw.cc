#include "atp/sim/draw.h"

#include <algorithm>
#include <cstdio>

// Swarm testing: the seed draws not only when something goes wrong, but also what can go wrong at
// all, in which network and for which jobs, so that a few thousand runs reach corner cases that a
// fixed distribution would never reach.

namespace atp::sim {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// The same job started again, while its first incarnation still runs from other addresses.
void become_later_start(const JobPlan& first, std::uint32_t starts_later, JobPlan& job) {
  job.key = {first.key.job, first.key.incarnation + starts_later};
  job.first_stream = first.first_stream;
  job.nonce_salt = first.nonce_salt + starts_later;
}

// Another tenant's job of the same number, incarnation and streams.
void become_twin(const JobPlan& first, std::uint16_t tenant, JobPlan& job) {
  job.key = {first.key.job, first.key.incarnation, tenant};
  job.first_stream = first.first_stream;
}

// Another socket of the same ranks: same key, other streams, and perhaps another server (a shard
// of the job) with another tree.
JobPlan next_socket(Draw& draw, const Plan& plan, const JobPlan& last) {
  JobPlan job = last;
  job.first_stream = static_cast<std::uint16_t>(
      (last.first_stream + last.stream_count + (draw.chance(0.5) ? 0 : 7)) % 65500);
  job.data_seed = draw.word();
  job.server = (last.server + 1) % plan.servers;
  if (job.server != last.server) draw_tree(draw, plan, job);
  if (draw.chance(0.5)) std::reverse(job.operations.begin(), job.operations.end());
  return job;
}

PathFaults draw_path(Draw& draw) {
  PathFaults path;
  path.loss = draw.probability(0.4);
  path.burst_begin = draw.probability(0.05);
  path.burst_end = draw.one_of({0.5, 0.2, 0.05});
  path.duplicate = draw.probability(0.4);
  path.held_back = draw.probability(0.4);
  path.held_back_max =
      draw.one_of<Duration>({microseconds(100), milliseconds(2), milliseconds(50)});
  path.corrupt = draw.probability(0.3);
  path.truncate = draw.probability(0.3);
  path.stale = draw.probability(0.3);
  path.stale_max = draw.one_of<Duration>({milliseconds(10), milliseconds(300), milliseconds(1500)});
  return path;
}

void draw_outages(Draw& draw, Plan& plan) {
  const std::uint32_t hosts = host_count(plan);
  const Duration last = plan.heal;
  const auto when = [&] { return Instant{draw.time(Duration{0}, last)}; };
  const auto any_host = [&] { return static_cast<std::uint32_t>(draw.between(0, hosts - 1)); };
  const auto any_worker = [&] {
    return static_cast<std::uint32_t>(draw.between(plan.servers + plan.switches, hosts - 1));
  };
  const std::uint64_t clogs = draw.chance(0.3) ? draw.between(1, 6) : 0;
  for (std::uint64_t i = 0; i < clogs; ++i) {
    plan.outages.push_back(
        {Outage::Kind::kClog, when(), draw.time(Duration{0}, last), any_host(), any_host()});
  }
  const std::uint64_t cuts = draw.chance(0.3) ? draw.between(1, 4) : 0;
  for (std::uint64_t i = 0; i < cuts; ++i) {
    plan.outages.push_back(
        {Outage::Kind::kOneWay, when(), draw.time(Duration{0}, last), any_host(), any_host()});
  }
  const std::uint64_t pauses = draw.chance(0.3) ? draw.between(1, 3) : 0;
  for (std::uint64_t i = 0; i < pauses; ++i) {
    plan.outages.push_back(
        {Outage::Kind::kPause, when(), draw.time(Duration{0}, last), any_host(), 0});
  }
  // A worker or a server dies, and is usually restarted.
  const auto death = [&](std::uint32_t host) {
    const Instant at = when();
    const bool forever = draw.chance(0.3);
    plan.outages.push_back({Outage::Kind::kDeath, at,
                            forever ? Outage::kForever : draw.time(Duration{0}, Instant{last} - at),
                            host, 0});
    plan.bound = std::chrono::seconds(90);  // joining, and then an operation, may time out
  };
  if (draw.chance(0.12)) death(any_worker());
  if (draw.chance(0.12)) {
    death(static_cast<std::uint32_t>(draw.between(0, plan.servers - 1)));
  }
  for (std::uint32_t i = 0; i < plan.switches; ++i) {
    if (!draw.chance(0.35)) continue;
    const Instant at = when();
    const bool forever = draw.chance(0.3);
    const Duration most = Instant{last} - at;
    plan.outages.push_back({Outage::Kind::kDeath, at,
                            forever ? Outage::kForever : draw.time(Duration{0}, most),
                            plan.servers + i, 0});
    // It dies again, perhaps right after its return.
    if (forever || !draw.chance(0.3)) continue;
    plan.outages.push_back({Outage::Kind::kDeath, when(), draw.time(Duration{0}, milliseconds(2)),
                            plan.servers + i, 0});
  }
}

// A server is stopped for so long that its ranks may have given it up, while nothing else goes
// wrong.
void draw_stopped_server(Draw& draw, Plan& plan) {
  const Instant at{draw.time(Duration{0}, milliseconds(20))};
  const Duration length = draw.time(std::chrono::seconds(2), std::chrono::seconds(7));
  const auto server = static_cast<std::uint32_t>(draw.between(0, plan.servers - 1));
  plan.outages.push_back({Outage::Kind::kPause, at, length, server, 0});
  plan.heal = at.time_since_epoch() + length;
  plan.bound = std::chrono::seconds(90);
}

// Links that a burst overflows: they mark packets, and lose those that do not fit.
void draw_narrow_links(Draw& draw, FabricPlan& fabric) {
  for (LinkPlan* link : {&fabric.worker, &fabric.switch_node, &fabric.server, &fabric.rack}) {
    link->bits_per_s = draw.one_of<std::uint64_t>({100'000'000, 1'000'000'000, 10'000'000'000});
    link->queue_bytes = draw.one_of<std::uint64_t>({0, 2'000, 20'000});
    link->ecn_bytes = draw.one_of<std::uint64_t>({0, 1'000, 5'000});
  }
}

void draw_faults(Draw& draw, Plan& plan) {
  if (draw.chance(0.03)) return draw_stopped_server(draw, plan);
  plan.heal = draw.one_of<Duration>({milliseconds(20), milliseconds(200), milliseconds(1500)});
  plan.heal = draw.time(plan.heal / 10, plan.heal);
  const std::uint64_t kinds = draw.between(1, 3);
  for (std::uint64_t i = 0; i < kinds; ++i) plan.path_faults.push_back(draw_path(draw));
  plan.hostile = draw.chance(0.25) ? 0.2 : 0;
  if (draw.chance(0.3)) draw_narrow_links(draw, plan.fabric);
  plan.report_unreachable = draw.one_of({0.0, 0.0, 0.3, 1.0});
  if (draw.chance(0.04)) {
    plan.outbox_packets = draw.one_of<std::uint32_t>({1, 2, 3, 8, 20});
    plan.watched = false;  // outboxes lose packets, which the judges would miss
  }
  draw_outages(draw, plan);
  for (JobPlan& job : plan.jobs) {
    if (!draw.chance(0.15)) continue;
    job.start[draw.between(0, job.world_size - 1)] = draw.time(milliseconds(50), milliseconds(900));
  }
}

void draw_fabric(Draw& draw, Plan& plan) {
  FabricPlan& fabric = plan.fabric;
  const auto delay = [&] { return draw.time(microseconds(1), microseconds(100)); };
  fabric.worker.delay = delay();
  fabric.server.delay = delay();
  // A switch node is a host at the rack's switch, or that switch itself.
  fabric.switch_node.delay = draw.chance(0.5) ? delay() : Duration{0};
  fabric.rack.delay = delay();
  fabric.jitter = draw.chance(0.5) ? draw.time(Duration{0}, microseconds(100)) : Duration{0};
  if (draw.chance(0.3)) {
    fabric.worker.packet_time = draw.time(Duration{0}, microseconds(2));
    fabric.server.packet_time = draw.time(Duration{0}, microseconds(2));
  }
  for (std::uint32_t i = 0; i < plan.switches; ++i) {
    fabric.switch_rack.push_back(static_cast<std::uint32_t>(draw.between(0, 2)));
  }
  for (std::uint32_t i = 0; i < plan.servers; ++i) {
    fabric.server_rack.push_back(static_cast<std::uint32_t>(draw.between(0, 2)));
  }
}

// How jobs share the aggregators, and the link rates that the switches assume.
void draw_sharing(Draw& draw, Plan& plan) {
  SwitchConfig& node = plan.switch_config;
  if (draw.chance(0.2)) {
    node.sharing.partitions = static_cast<std::uint32_t>(draw.between(1, 3));
    node.sharing.partitions = std::min(node.sharing.partitions, node.aggregators);
  }
  if (draw.chance(0.2)) node.sharing.quota = static_cast<std::uint32_t>(draw.between(1, 4));
  plan.server_config.rehash = !draw.chance(0.2);
  if (draw.chance(0.15)) {
    plan.server_config.placement.linear_aggregators =
        static_cast<std::uint16_t>(draw.between(1, node.aggregators));
  }
  if (draw.chance(0.2)) {
    node.uplink_bits_per_s = draw.one_of<std::uint64_t>({1'000'000, 100'000'000});
    node.ecn_threshold = draw.one_of<Duration>({microseconds(10), milliseconds(1)});
  }
}

// Tables without room for every job. A job that a switch has no room for bypasses it; one that its
// server has no room for waits, or fails with the refusal.
void draw_tables(Draw& draw, Plan& plan) {
  const std::uint64_t jobs = plan.jobs.size();
  if (draw.chance(0.1)) {
    plan.switch_config.max_trees = static_cast<std::uint32_t>(draw.between(1, jobs));
  }
  if (draw.chance(0.1)) {
    plan.switch_config.tree_memory_bytes = draw.between(0, 2) * Tree::bytes_needed(16, {0, 4});
  }
  if (jobs > 1 && draw.chance(0.05)) {
    plan.server_config.max_jobs = static_cast<std::uint32_t>(draw.between(1, jobs - 1));
    plan.bound = std::chrono::seconds(90);
  }
}

// Jobs that have run for so long that their numbers of fragments or operations soon exceed 32 bits,
// and workers with little room for operations. Uses a generator of its own, so that the rest of a
// seed's world does not change.
void draw_numbers_at_their_ends(Plan& plan) {
  Draw draw(plan.seed ^ 0x3f17'c0de);
  constexpr std::uint64_t kWrap = std::uint64_t{1} << 32;
  if (draw.chance(0.2)) plan.first_sequence = kWrap - draw.between(0, 60);
  if (draw.chance(0.2)) plan.first_operation = kWrap - draw.between(0, 8);
  for (JobPlan& job : plan.jobs) {
    if (draw.chance(0.2)) job.max_operations = job.max_in_flight;
  }
}

// Makes nothing scarce and no value overflow, so that the cost of a run is known.
void make_ample(Draw& draw, Plan& plan, bool lossy) {
  plan.ample = true;
  plan.switch_config.aggregators = 4096;
  plan.switch_config.max_value_count = 70;
  plan.server_config.wmax = std::min(plan.server_config.wmax, 8U);
  plan.server_config.float_slots = 64;
  plan.timing = {};
  plan.fabric.jitter = Duration{0};  // with a late peer, reordering looks like a loss
  for (JobPlan& job : plan.jobs) {
    job.overflow = OverflowPolicy::kReactive;
    for (OperationPlan& operation : job.operations) operation.values = Values::kSmall;
  }
  if (!lossy) return;
  plan.heal = std::chrono::seconds(20);
  plan.path_faults.push_back({.loss = draw.one_of({0.001, 0.005, 0.02})});
}

}  // namespace

std::uint32_t host_count(const Plan& plan) {
  std::uint32_t hosts = plan.servers + plan.switches;
  for (const JobPlan& job : plan.jobs) hosts += job.world_size;
  return hosts;
}

ValueCounts Plan::value_counts(const JobPlan& job) const {
  std::uint16_t straight = server_config.max_value_count;
  bool has_switch = false;
  for (Rank rank = 0; rank < job.world_size; ++rank) {
    straight = std::min(straight, job.value_count_of(rank));
    has_switch |= !switches_of(job, rank).empty();
  }
  const std::uint16_t least = std::min(straight, switch_config.max_value_count);
  return {has_switch ? least : straight, straight};
}

// If a rank has room for a single value, every value becomes a fragment, and in a crowded tree each
// may take a round trip of several hundred microseconds.
std::int64_t fragments_of(const Plan& plan) {
  std::size_t fragments = 0;
  for (const JobPlan& job : plan.jobs) {
    const std::size_t each = plan.value_counts(job).through_switches;
    for (const OperationPlan& operation : job.operations) {
      fragments += (operation.spec.count + each - 1) / each;
    }
  }
  return static_cast<std::int64_t>(fragments);
}

Plan draw_plan(std::uint64_t seed) {
  Draw draw(seed);
  Plan plan;
  plan.seed = seed;
  plan.watched = true;
  plan.switches = static_cast<std::uint32_t>(draw.one_of({0, 1, 1, 1, 1, 2, 3, 4, 6}));
  plan.servers = static_cast<std::uint32_t>(draw.one_of({1, 1, 1, 1, 2, 3, 4}));
  plan.switch_config.aggregators = draw.one_of<std::uint32_t>({1, 2, 3, 8, 64, 1024});
  const bool many_values = draw.chance(0.15);
  plan.switch_config.max_value_count = draw_value_count(draw, many_values);
  plan.switch_config.max_trees = 64;
  plan.server_config.wmax = draw.one_of<std::uint32_t>({1, 2, 2, 4, 4, 16, 64});
  plan.server_config.max_value_count = draw_value_count(draw, many_values);
  plan.server_config.float_slots = draw.one_of<std::uint32_t>({1, 2, 64});
  plan.server_config.max_jobs = 64;
  if (draw.chance(0.3)) {
    plan.timing.reclaim = draw.time(milliseconds(1), milliseconds(50));
    plan.timing.sweep = plan.timing.reclaim / 2;
  }
  draw_fabric(draw, plan);
  const auto jobs = draw.one_of<std::uint32_t>({1, 1, 1, 1, 2, 2, 3, 4});
  for (std::uint32_t i = 0; i < jobs; ++i) {
    plan.jobs.push_back(draw_job(draw, plan, i));
    if (i > 0 && draw.chance(0.3)) {
      become_later_start(plan.jobs.front(), i, plan.jobs.back());
    } else if (i > 0 && plan.jobs.back().data_seed % 3 == 0) {
      become_twin(plan.jobs.front(), static_cast<std::uint16_t>(i), plan.jobs.back());
    }
    std::uint64_t more = plan.servers - 1;
    if (jobs > 2 || plan.servers == 1) more = draw.chance(0.2) ? 1 : 0;
    for (; more > 0; --more) plan.jobs.push_back(next_socket(draw, plan, plan.jobs.back()));
  }
  draw_numbers_at_their_ends(plan);
  if (seed % 20 == 0 || seed % 20 == 5) {
    make_ample(draw, plan, seed % 20 == 5);
    return plan;
  }
  draw_sizes(plan);
  draw_tenants(plan);
  if (seed % 10 != 0) {
    draw_faults(draw, plan);
    // Loss for longer than a lease might end any.
    if (draw_long_outages(plan)) {
      plan.path_faults.clear();
      plan.outbox_packets = Plan{}.outbox_packets;
      plan.watched = true;
    }
    draw_discord(plan);
    draw_address_changes(plan);
  }
  draw_sharing(draw, plan);
  draw_tables(draw, plan);
  draw_unlike_switches(plan);
  draw_places(plan);
  draw_weights(plan);
  draw_papers_rules(plan);
  // Each window in which a rank sends a fragment past the switches, because it might overflow,
  // costs the others a time-out.
  for (const JobPlan& job : plan.jobs) {
    if (job.overflow == OverflowPolicy::kProactive) plan.bound = std::chrono::seconds(90);
  }
  plan.bound += milliseconds(fragments_of(plan));
  return plan;
}

std::string describe(const Plan& plan) {
  char line[256];
  std::snprintf(line, sizeof line,
                "seed %llu: %u servers, %u switches of %u aggregators (%u places), Wmax %u, heal "
                "%.1f ms",
                static_cast<unsigned long long>(plan.seed), plan.servers, plan.switches,
                plan.switch_config.aggregators, plan.switch_config.places, plan.server_config.wmax,
                std::chrono::duration<double, std::milli>(plan.heal).count());
  std::string text = line;
  for (const JobPlan& job : plan.jobs) {
    std::snprintf(line, sizeof line,
                  "; job %u.%u of %u: %u workers, %u streams, K %u, %zu operations", job.key.job,
                  job.key.incarnation, job.key.tenant, job.world_size, job.stream_count,
                  job.max_value_count, job.operations.size());
    text += line;
  }
  return text;
}

}  // namespace atp::sim
