#include <cstdio>
#include <ctime>
#include <optional>
#include <string>
#include <vector>

#include "atp/cli/command/command.h"
#include "atp/cli/command/text_table.h"
#include "explore/explore.h"
#include "explore/planted.h"

// atp_explore: explores worlds and prints a row about each. The exit status is 0 if every world is
// in order, 1 if something is wrong, and 2 for wrong usage.

namespace atp::explore {
namespace {

struct Arguments {
  std::vector<std::string> worlds;
  std::string bug;
  std::uint64_t states = 1'000'000;
  std::uint64_t drain_every = 1;
  bool list = false;
  std::optional<std::uint32_t> losses;
  std::optional<std::uint32_t> duplicates;
  std::optional<std::uint32_t> early_timers;
  std::optional<std::uint32_t> late_nodes;
  std::optional<std::uint32_t> restarts;
  std::optional<std::uint32_t> unreachable;
};

void add_options(const CommandLine& program, Arguments& arguments) {
  program
      .add_option("--world", arguments.worlds,
                  "worlds to explore, separated by commas (default: all)")
      .split_at(',');
  program.add_option("--states", arguments.states, "maximum states per world").show_default();
  program
      .add_option("--drain-every", arguments.drain_every,
                  "continue to the end from every Nth state; 0: from none")
      .show_default();
  program.add_option("--losses", arguments.losses, "maximum packets lost");
  program.add_option("--duplicates", arguments.duplicates, "maximum packets delivered twice");
  program.add_option("--early", arguments.early_timers,
                     "maximum timers that fire while packets are in flight");
  program.add_option("--late", arguments.late_nodes,
                     "maximum timers that fire before earlier ones of other nodes");
  program.add_option("--restarts", arguments.restarts, "maximum restarts of switches");
  program.add_option("--unreachable", arguments.unreachable,
                     "maximum ICMP errors that report to a worker that its switch is gone");
  program.add_option("--bug", arguments.bug, "plant this bug, which the exploration must find");
  program.add_flag("--list", arguments.list, "list the worlds and bugs");
}

void list_all() {
  TextTable worlds({"world", "about"});
  for (const Plan& plan : known_worlds()) worlds.add({plan.name, plan.about});
  TextTable bugs({"bug", "about", "found in"});
  for (const Bug& bug : planted_bugs()) bugs.add({bug.name, bug.about, bug.world});
  std::printf("%s\n%s", worlds.text("").c_str(), bugs.text("").c_str());
}

std::vector<Plan> plans_of(const Arguments& arguments) {
  std::vector<Plan> plans;
  for (const std::string& name : arguments.worlds) {
    const Plan* plan = find_world(name);
    if (plan == nullptr) throw UsageError("--world: there is no " + name + "; --list lists them");
    plans.push_back(*plan);
  }
  if (arguments.worlds.empty()) plans = known_worlds();
  for (Plan& plan : plans) {
    const auto set = [](std::uint8_t& budget, const std::optional<std::uint32_t>& value) {
      if (value && *value > 255) {
        throw UsageError("found " + std::to_string(*value) +
                         " faults of a kind, expected 0 to 255");
      }
      if (value) budget = static_cast<std::uint8_t>(*value);
    };
    set(plan.budgets.losses, arguments.losses);
    set(plan.budgets.duplicates, arguments.duplicates);
    set(plan.budgets.early_timers, arguments.early_timers);
    set(plan.budgets.late_nodes, arguments.late_nodes);
    set(plan.budgets.restarts, arguments.restarts);
    set(plan.budgets.unreachable, arguments.unreachable);
  }
  return plans;
}

const Bug* bug_of(const Arguments& arguments) {
  if (arguments.bug.empty()) return nullptr;
  const Bug* bug = find_bug(arguments.bug);
  if (bug == nullptr)
    throw UsageError("--bug: there is no " + arguments.bug + "; --list lists them");
  return bug;
}

std::string milliseconds_text(Duration time) {
  return std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(time).count());
}

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

std::string budgets_text(const Budgets& budgets) {
  std::string text;
  const auto add = [&text](const char* name, unsigned value) {
    if (value > 0) text += (text.empty() ? "" : " ") + (name + std::to_string(value));
  };
  add("L", budgets.losses);
  add("D", budgets.duplicates);
  add("T", budgets.early_timers);
  add("S", budgets.late_nodes);
  add("B", budgets.restarts);
  add("X", budgets.unreachable);
  return text.empty() ? "none" : text;
}

std::string verdict_of(const Exploration& found) {
  if (found.violation) return "WRONG";
  return found.complete ? "in order, all states" : "in order, cut off";
}

// False if something is wrong.
bool explore_and_add(const Plan& plan, const Arguments& arguments, TextTable& table) {
  ExploreOptions options;
  options.most_states = arguments.states;
  options.drain_every = arguments.drain_every;
  options.progress = [&](std::size_t states, std::uint32_t depth) {
    std::fprintf(stderr, "%s: %s states, depth %u\n", plan.name.c_str(),
                 with_commas(states).c_str(), depth);
  };
  std::fprintf(stderr, "%s\n", plan.name.c_str());
  const double begin = cpu_seconds();
  const Exploration found = explore(plan, options, bug_of(arguments));
  const double seconds = cpu_seconds() - begin;
  char time[32];
  std::snprintf(time, sizeof time, "%.1f", seconds);
  table.add({plan.name, budgets_text(plan.budgets), with_commas(found.states),
             with_commas(found.moves), std::to_string(found.depth), with_commas(found.ends),
             with_commas(found.node_states), with_commas(found.turns), with_commas(found.drains),
             std::to_string(found.most_waits), milliseconds_text(found.longest),
             milliseconds_text(found.longest_cleaning), time, verdict_of(found)});
  if (!found.violation) return true;
  std::printf("%s: %s\n", plan.name.c_str(), found.violation->what.c_str());
  for (const std::string& line : found.violation->story) std::printf("%s\n", line.c_str());
  std::printf("\n");
  return false;
}

bool explore_all(const Arguments& arguments) {
  TextTable table({"world", "budgets", "states", "moves", "depth", "ends", "node states", "turns",
                   "drains", "waits", "done ms", "clean ms", "cpu s", "verdict"});
  bool in_order = true;
  for (const Plan& plan : plans_of(arguments)) {
    in_order = explore_and_add(plan, arguments, table) && in_order;
  }
  std::printf("%s", table.text("").c_str());
  return in_order;
}

}  // namespace
}  // namespace atp::explore

int main(int argc, char** argv) {
  atp::CommandLine program("atp_explore",
                           "The nodes of the product in every order of events of small worlds");
  atp::explore::Arguments arguments;
  atp::explore::add_options(program, arguments);
  bool in_order = true;
  program.callback([&] {
    if (arguments.list) return atp::explore::list_all();
    in_order = atp::explore::explore_all(arguments);
  });
  try {
    program.parse({argv + 1, argv + argc});
  } catch (const atp::UsageError& error) {
    std::fprintf(stderr, "atp_explore: %s\n", error.what());
    return atp::kWrongUsage;
  }
  return in_order ? 0 : atp::kOperationFailed;
}
