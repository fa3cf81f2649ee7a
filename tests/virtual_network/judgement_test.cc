#include <algorithm>
#include <map>
#include <set>

#include "atp/sim/run_seed.h"
#include "tests/virtual_network/scenario.h"

// How a run is judged: runs that must not pass, and the worlds that the seeds draw.

namespace atp::sim {
namespace {

using testing::HasSubstr;

// A rank contributes other values than those whose sum the oracle expects.
Plan with_a_wrong_contribution() {
  Plan plan = small_plan(3, {20});
  plan.jobs[0].own_operations = {plan.jobs[0].operations};
  plan.jobs[0].own_operations[0][0].values = Values::kZero;
  return plan;
}

Plan without_time_to_finish() {
  Plan plan = small_plan(3, {400});
  plan.bound = microseconds(100);
  return plan;
}

// A world that claims to be ample but has one aggregator for all.
Plan with_too_little() {
  Plan plan = small_plan(3, {400});
  plan.ample = true;
  plan.switch_config.aggregators = 1;
  return plan;
}

struct Case {
  const char* name;
  Plan plan;
  Ending ending;
  const char* report;
};

TEST(Judgement, TheExitCodeOfAtpSimIsTheRunsJudgement) {
  const Case cases[] = {
      {"all held", small_plan(3, {20}), Ending::kHeld, ""},
      {"a wrong sum", with_a_wrong_contribution(), Ending::kWrongSum,
       "wrong sum: job 0 operation 0"},
      {"not live", without_time_to_finish(), Ending::kNotLive, "not finished in time"},
      {"wasteful", with_too_little(), Ending::kWasteful, "wasteful: "},
  };
  for (const Case& c : cases) {
    World world(c.plan);
    Tally tally;
    const Outcome outcome = run_to_the_end(world, tally);
    EXPECT_EQ(outcome.ending, c.ending) << c.name << ": " << outcome.report;
    EXPECT_THAT(outcome.report, HasSubstr(c.report)) << c.name;
  }
  EXPECT_EQ(static_cast<int>(Ending::kHeld), 0);
  EXPECT_EQ(static_cast<int>(Ending::kWrongSum), 1);
  EXPECT_EQ(static_cast<int>(Ending::kNotLive), 2);
  EXPECT_EQ(static_cast<int>(Ending::kWasteful), 4) << "3 is a crash";
  EXPECT_EQ(static_cast<int>(Ending::kAgainstThePage), 5);
}

// The first turn of a worker has two JOINs.
TEST(Judgement, LetsASmallOutboxOverflowWhileThereAreFaults) {
  Plan plan = small_plan(1, {20});
  plan.switches = 0;
  plan.outbox_packets = 1;
  plan.heal = seconds(20);
  World world(plan);
  Tally tally;
  const Outcome outcome = run_to_the_end(world, tally);
  EXPECT_LT(world.now(), Instant{plan.heal});
  EXPECT_EQ(outcome.ending, Ending::kHeld) << outcome.report;
  EXPECT_GE(tally.faults[Fault::kOutboxLoss], 1u);
}

// Rank 0's sums wait in the switch for rank 1, which is dead, for longer than they may.
TEST(Judgement, AnErrorThatReachesAStoppedSwitchIsNotASweep) {
  Plan plan = small_plan(2, {20});
  plan.watched = true;
  plan.report_unreachable = 1;
  plan.timing.reclaim = milliseconds(10);
  plan.timing.sweep = milliseconds(5);
  World world(plan);
  const Endpoint dead = world.endpoint(world.worker_host(1));
  world.set_tap([&](const Packet& packet) -> Verdict {
    const bool is_late = packet.to == dead && is(packet, PacketType::kJoinAck);
    return {.delay = is_late ? Duration{milliseconds(100)} : Duration{}};
  });
  world.at(Instant{milliseconds(5)}, [&] {
    world.kill(world.worker_host(1));
    world.pause(world.switch_host(0), milliseconds(500));
  });
  world.run_for(milliseconds(300));
  EXPECT_GT(world.aggregators_in_use(), 0u);
  EXPECT_GT(world.faults()[Fault::kUnreachable], 0u);
  EXPECT_GT(world.switch_counters()[SwitchCounter::kUnreachable], 0u);
  world.run_for(milliseconds(700));
  EXPECT_THAT(world.violations(), testing::IsEmpty());
}

TEST(Judgement, DetectsWritesToATensorAfterItsOperation) {
  World world(small_plan(2, {20}));
  ASSERT_TRUE(world.run_to_completion());
  world.application(1).output(0)[7] ^= std::byte{1};
  world.check_departure();
  ASSERT_EQ(world.violations().size(), 1U);
  EXPECT_THAT(world.violations()[0], HasSubstr("operation 0 was written to after its end"));
}

// All JOINs are answered when the last rank joins. The lease of a rank whose JOIN was old may end
// soon, and then the server no longer knows who is at that address.
TEST(Judgement, AnAnswerToAnOldJoinDoesNotMakeItNew) {
  constexpr Endpoint kWorker = Endpoint::ipv4(10, 0, 2, 1, 7000);
  constexpr Endpoint kServer = Endpoint::ipv4(10, 0, 9, 9, ATP_DEFAULT_SERVER_PORT);
  ServerJudge judge(ServerConfig{}, kServer, ATP_DEFAULT_SWITCH_PORT);
  const Server server{ServerConfig{}};
  const ControlHead join{.type = PacketType::kJoin, .flags = ATP_FLAG_DIRECT, .job = {7, 8}};
  const ControlHead ack{.type = PacketType::kJoinAck, .flags = ATP_FLAG_DIRECT, .job = {7, 8}};
  atp_header flush{};
  flush.version = ATP_VERSION;
  flush.type = ATP_FLUSH;
  flush.bitmap_words = 1;
  flush.job = 7;
  flush.incarnation = 8;
  flush.hops = ATP_HOPS;
  Join body{.nonce = 5, .world_size = 2, .stream_count = 1, .max_value_count = 1};
  const auto take_join = [&](const Outbox& answer) {
    Outbox cause;
    ASSERT_TRUE(put_join(cause, join, RankSet::of(1), body));
    cause.send_to({});
    judge.end_turn(Instant{seconds(100)}, kWorker, cause.bytes_of(cause.packets()[0]), server,
                   answer);
  };
  Outbox prove;
  ASSERT_TRUE(put_status(prove, {.flags = ATP_FLAG_DIRECT, .job = {7, 8}}, RankSet::of(1),
                         StatusMessage::prove(9, RankSet::of(1), 5)));
  prove.send_to(kWorker);
  take_join(prove);
  body.proof = 9;
  take_join(Outbox());
  Outbox answer;
  ASSERT_TRUE(put_join_ack(answer, ack, RankSet::of(1), JoinAck{.wmax = 4}));
  answer.send_to(kWorker);
  judge.end_turn(Instant{seconds(104)}, {}, {}, server, answer);
  Outbox asks;
  ASSERT_TRUE(put_bare(asks, flush, RankSet::of(1)));
  asks.send_to(kWorker);
  judge.end_turn(Instant{seconds(106)}, {}, {}, server, asks);
  EXPECT_THAT(judge.violations(), testing::IsEmpty());
}

TEST(Judgement, AnOutboxThatIsMeantToBeSmallMayLosePackets) {
  Plan plan = small_plan(3, {20});
  plan.switches = 0;  // everything is complete before the faults stop
  plan.heal = seconds(30);
  for (const std::uint32_t packets : {2U, Plan{}.outbox_packets}) {
    plan.outbox_packets = packets;
    World world(plan);
    Tally tally;
    const Outcome outcome = run_to_the_end(world, tally);
    EXPECT_EQ(outcome.ending, Ending::kHeld) << outcome.report;
    EXPECT_LT(world.now(), Instant{plan.heal});
    EXPECT_EQ(tally.faults[Fault::kOutboxLoss] > 0, packets == 2);
  }
}

// How often something occurs in the plans of 4,000 seeds.
using Histogram = std::map<std::size_t, int>;

template <class Of>
Histogram drawn(Of&& of) {
  Histogram histogram;
  for (std::uint64_t seed = 0; seed < 4000; ++seed) ++histogram[of(draw_plan(seed))];
  return histogram;
}

void expect_each(const Histogram& histogram, std::size_t first, std::size_t last) {
  for (std::size_t i = first; i <= last; ++i) {
    EXPECT_TRUE(histogram.contains(i) && histogram.at(i) >= 3) << i;
  }
}

std::size_t keys(const Plan& plan) {
  std::set<JobKey> keys;
  for (const JobPlan& job : plan.jobs) keys.insert(job.key);
  return keys.size();
}

std::size_t servers_of_the_first_job(const Plan& plan) {
  std::set<std::uint32_t> servers;
  for (const JobPlan& job : plan.jobs) {
    if (job.key == plan.jobs[0].key) servers.insert(job.server);
  }
  return servers.size();
}

std::size_t longest_route(const Plan& plan) {
  std::size_t longest = 0;
  for (const JobPlan& job : plan.jobs) {
    for (Rank rank = 0; rank < job.world_size; ++rank) {
      longest = std::max(longest, plan.switches_of(job, rank).size());
    }
  }
  return longest;
}

TEST(Drawing, ReachesEveryShapeOfTheWorld) {
  expect_each(drawn(longest_route), 0, 3);
  expect_each(drawn([](const Plan& plan) { return plan.jobs[0].world_size; }), 1, 16);
  expect_each(drawn(keys), 1, 4);
  expect_each(drawn([](const Plan& plan) { return plan.servers; }), 1, 4);
  expect_each(drawn(servers_of_the_first_job), 1, 4);
  const Histogram quiet = drawn([](const Plan& plan) { return plan.heal == Duration{0} ? 1 : 0; });
  EXPECT_EQ(quiet.at(1), 400) << "nine seeds of ten have faults";
}

bool has_two_starts(const Plan& plan) {
  return std::any_of(plan.jobs.begin(), plan.jobs.end(), [&](const JobPlan& job) {
    return job.key.job == plan.jobs[0].key.job && job.key != plan.jobs[0].key;
  });
}

// A server is stopped for longer than half a lease, and nothing else goes wrong.
bool has_a_stopped_server(const Plan& plan) {
  return plan.outages.size() == 1 && plan.outages[0].host < plan.servers &&
         plan.outages[0].kind == Outage::Kind::kPause &&
         plan.outages[0].length > plan.timing.lease / 2;
}

TEST(Drawing, ReachesEveryScarcity) {
  using Holds = bool (*)(const Plan&);
  const std::pair<const char*, Holds> cases[] = {
      {"two starts of a job side by side", has_two_starts},
      {"a server that is stopped", has_a_stopped_server},
      {"a switch without room for all trees",
       [](const Plan& plan) { return plan.switch_config.max_trees < plan.jobs.size(); }},
      {"a switch without memory",
       [](const Plan& plan) { return plan.switch_config.tree_memory_bytes == 0; }},
      {"a server without room for all jobs", [](const Plan& plan) { return plan.is_crowded(); }},
      {"an outbox of one packet", [](const Plan& plan) { return plan.outbox_packets == 1; }},
      {"ranks of different K",
       [](const Plan& plan) { return !plan.jobs[0].own_value_counts.empty(); }},
      {"switches that lower K",
       [](const Plan& plan) {
         const ValueCounts counts = plan.value_counts(plan.jobs[0]);
         return counts.through_switches < counts.straight;
       }},
      {"tenants with quotas of aggregators",
       [](const Plan& plan) {
         return std::any_of(plan.jobs.begin(), plan.jobs.end(), [&](const JobPlan& job) {
           return quota_of(plan.quotas.get(), job.key.tenant).aggregators > 0;
         });
       }},
      {"jobs with weights of their own",
       [](const Plan& plan) { return plan.quotas && !plan.quotas->weights.empty(); }},
      {"a bitmap of two or three words",
       [](const Plan& plan) { return plan.jobs[0].world_size > 64; }},
      {"packets of more than two blocks",
       [](const Plan& plan) { return plan.jobs[0].max_value_count > 2 * kBlockValues; }},
      {"switches of one tree that differ",
       [](const Plan& plan) { return !plan.own_switch_configs.empty(); }},
      {"faults that outlast a lease",
       [](const Plan& plan) { return plan.heal > plan.timing.lease && plan.outages.size() > 1; }},
      {"a rank that submits another operation",
       [](const Plan& plan) {
         return std::any_of(plan.jobs.begin(), plan.jobs.end(),
                            [](const JobPlan& job) { return job.deviator.has_value(); });
       }},
      {"a rank that leaves before its last operation",
       [](const Plan& plan) {
         return std::any_of(plan.jobs.begin(), plan.jobs.end(),
                            [](const JobPlan& job) { return job.abort.has_value(); });
       }},
      {"a rank whose address changes",
       [](const Plan& plan) {
         return std::any_of(plan.outages.begin(), plan.outages.end(), [](const Outage& outage) {
           return outage.kind == Outage::Kind::kMove;
         });
       }},
  };
  for (const auto& [name, holds] : cases) {
    EXPECT_GE(drawn([&](const Plan& plan) { return holds(plan) ? 1 : 0; })[1], 20) << name;
  }
}

TEST(Judgement, ComputesTheKOnWhichAJobMustAgree) {
  Plan plan = small_plan(2, {20});
  plan.watched = true;
  plan.jobs[0].own_value_counts = {9, 7};
  plan.server_config.max_value_count = 8;
  plan.switch_config.max_value_count = 6;
  const auto objection = [&](std::uint16_t value_count) {
    return Oracle(plan).check(0, 0, 0, value_count, {}).value_or("");
  };
  EXPECT_EQ(objection(7), "K is 7 instead of 6");
  EXPECT_EQ(objection(6), "an output of the wrong length");
  plan.heal = milliseconds(1);
  EXPECT_EQ(objection(7), "an output of the wrong length") << "the ranks may have joined straight";
  EXPECT_EQ(objection(8), "K is 8 instead of 6");
  plan.heal = Duration{0};
  plan.server_config.max_jobs = 0;
  EXPECT_EQ(objection(7), "an output of the wrong length") << "without room they join straight";
}

// For how many operations of 4,000 plans something holds.
int operations_with(bool (*holds)(const JobPlan& job, const OperationPlan& operation)) {
  int count = 0;
  for (std::uint64_t seed = 0; seed < 4000; ++seed) {
    const Plan plan = draw_plan(seed);
    for (const JobPlan& job : plan.jobs) {
      for (const OperationPlan& operation : job.operations) count += holds(job, operation) ? 1 : 0;
    }
  }
  return count;
}

TEST(Drawing, ReachesEveryTypeReductionAndFormat) {
  using Holds = bool (*)(const JobPlan&, const OperationPlan&);
  const std::pair<const char*, Holds> cases[] = {
      {"the fixed scale",
       [](const JobPlan& job, const OperationPlan&) {
         return job.number_format == NumberFormat::kFixed;
       }},
      {"blocks of bfloat16 in 16 bits",
       [](const JobPlan& job, const OperationPlan& operation) {
         return job.number_format != NumberFormat::kFixed && !operation.spec.small &&
                operation.spec.type == DataType::kBFloat16 &&
                operation.spec.format == NumberFormat::kBlocksInt16 &&
                is_sum(operation.spec.reduction);
       }},
      {"a special block of float16",
       [](const JobPlan& job, const OperationPlan& operation) {
         return job.number_format != NumberFormat::kFixed && !operation.spec.small &&
                operation.spec.type == DataType::kFloat16 &&
                operation.spec.format == NumberFormat::kBlocks &&
                operation.values == Values::kNotFinite && is_sum(operation.spec.reduction);
       }},
      {"every magnitude side by side, in several segments",
       [](const JobPlan& job, const OperationPlan& operation) {
         return job.number_format != NumberFormat::kFixed && operation.segments.size() > 1 &&
                operation.values == Values::kMixed;
       }},
      {"a small sum", [](const JobPlan&, const OperationPlan& o) { return o.spec.small; }},
      {"a sum that is exact although it is not small",
       [](const JobPlan& job, const OperationPlan& operation) {
         return job.number_format != NumberFormat::kFixed && !operation.spec.small &&
                operation.spec.format == NumberFormat::kExact;
       }},
      {"a minimum of integers",
       [](const JobPlan&, const OperationPlan& operation) {
         return operation.spec.type == DataType::kInt32 &&
                operation.spec.reduction == Reduction::kMin;
       }},
  };
  for (const auto& [name, holds] : cases) EXPECT_GE(operations_with(holds), 30) << name;
}

}  // namespace
}  // namespace atp::sim
