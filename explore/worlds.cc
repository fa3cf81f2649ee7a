// The worlds to explore. docs/inside/exploration.md has the number of states of each with other
// budgets.
#include <algorithm>

#include "explore/plan.h"

namespace atp::explore {
namespace {

JobPlan two_ranks(std::vector<std::uint64_t> operations) {
  JobPlan job;
  job.ways = {{0}, {0}};
  job.operations = std::move(operations);
  return job;
}

JobPlan other_job() {
  JobPlan job;
  job.key = {2, 1};
  job.ways = {{0}};
  job.operations = {1};
  return job;
}

Plan plan_of(const char* name, const char* about, JobPlan job, Budgets budgets,
             std::size_t test_states) {
  Plan plan;
  plan.name = name;
  plan.about = about;
  plan.jobs = {std::move(job)};
  plan.budgets = budgets;
  plan.test_states = test_states;
  return plan;
}

Plan claimed() {
  Plan plan = plan_of("claimed", "another job claims the aggregator and leaves it", two_ranks({1}),
                      {.losses = 1, .duplicates = 1, .early_timers = 1}, 190'000);
  plan.jobs.push_back(other_job());
  return plan;
}

Plan overflow() {
  JobPlan job = two_ranks({2});
  job.type = DataType::kFloat32;
  job.inputs = Inputs::kOverflowing;
  return plan_of("overflow", "the sum of the first of 2 fragments overflows: sent again as floats",
                 job, {.losses = 1, .duplicates = 1}, 90'000);
}

Plan blocks() {
  JobPlan job = two_ranks({1});
  job.format = NumberFormat::kBlocks;
  job.type = DataType::kFloat32;
  return plan_of("blocks", "an exponent on the express stream, then the value of its block", job,
                 {.losses = 1, .duplicates = 1, .early_timers = 1}, 100'000);
}

Plan two_levels() {
  JobPlan job;
  job.ways = {{0, 1}, {0, 1}, {1}};
  job.operations = {1};
  Plan plan = plan_of("two-levels", "3 ranks, two behind a switch of their own, 1 fragment", job,
                      {.losses = 2, .duplicates = 1, .early_timers = 1}, 180'000);
  plan.switches = 2;
  return plan;
}

// With the key of job 1, both fragments have the last of two aggregators as their home.
Plan two_places() {
  Plan plan = plan_of("two-places", "2 fragments with one home: one may be summed away from it",
                      two_ranks({2}), {.losses = 1, .duplicates = 1, .early_timers = 1}, 200'000);
  plan.aggregators = 2;
  plan.places = 2;
  return plan;
}

Plan quota() {
  Plan plan = two_places();
  plan.name = "quota";
  plan.about = "as two-places, but the job may hold only one: the other passes a free place";
  plan.quota = 1;
  plan.test_states = 350'000;
  return plan;
}

// With the key of job 12, the homes are the aggregators 1, 0 and 0.
Plan overlapping_places() {
  Plan plan = plan_of("overlapping-places",
                      "3 fragments, 3 aggregators, 2 places each, some of which they share",
                      two_ranks({3}), {.losses = 1, .early_timers = 1}, 400'000);
  plan.jobs[0].key = {12, 1};
  plan.aggregators = 3;
  plan.places = 2;
  plan.wmax = 4;
  return plan;
}

Plan parts() {
  Plan plan = two_places();
  plan.name = "parts";
  plan.about = "as two-places, and another job finds no place: each then gets its part";
  plan.jobs.push_back(other_job());
  plan.budgets = {.losses = 1, .duplicates = 1};
  plan.may_wait = true;
  plan.test_states = 350'000;
  return plan;
}

std::vector<Plan> make_worlds() {
  return {
      plan_of("one-fragment", "2 ranks, 1 fragment", two_ranks({1}),
              {.losses = 2, .duplicates = 1, .early_timers = 2}, 100'000),
      plan_of("two-fragments", "2 ranks, 2 fragments that share the only aggregator",
              two_ranks({2}), {.losses = 1, .duplicates = 1, .early_timers = 1}, 400'000),
      plan_of("window", "2 ranks, 3 fragments, Wmax 2: the window's slots are used again",
              two_ranks({3}), {.losses = 1, .early_timers = 1}, 150'000),
      plan_of("late-node", "a timer fires before earlier ones of other nodes", two_ranks({1}),
              {.losses = 1, .late_nodes = 1}, 30'000),
      plan_of("restart", "the switch forgets everything at any moment", two_ranks({1}),
              {.losses = 1, .early_timers = 1, .restarts = 1}, 250'000),
      plan_of("detaching", "a worker is notified that its switch is gone, detaches and returns",
              two_ranks({1}), {.losses = 1, .duplicates = 1, .unreachable = 1}, 100'000),
      claimed(),
      overflow(),
      blocks(),
      two_levels(),
      two_places(),
      quota(),
      overlapping_places(),
      parts(),
  };
}

}  // namespace

const std::vector<Plan>& known_worlds() {
  static const std::vector<Plan> kWorlds = make_worlds();
  return kWorlds;
}

const Plan* find_world(std::string_view name) {
  const auto& worlds = known_worlds();
  const auto at = std::find_if(worlds.begin(), worlds.end(),
                               [&](const Plan& plan) { return plan.name == name; });
  return at == worlds.end() ? nullptr : &*at;
}

}  // namespace atp::explore
