#include "atp/sim/run_seed.h"

namespace atp::sim {

Outcome run_to_the_end(World& world, Tally& tally) {
  const bool done = world.run_to_completion();
  const Duration after_heal = world.now().time_since_epoch() - world.plan().heal;
  Outcome outcome;
  if (done) {
    world.check_release();
    world.check_departure();
  } else {
    outcome.ending = Ending::kNotLive;
    outcome.report = "not finished in time:\n" + world.unfinished();
  }
  for (const std::string& violation : world.violations()) {
    const bool wrong = violation.find("wrong sum") != std::string::npos;
    if (wrong || outcome.ending == Ending::kHeld) {
      outcome.ending = wrong ? Ending::kWrongSum : Ending::kNotLive;
    }
    outcome.report += violation + "\n";
  }
  tally.add(world, after_heal);
  return outcome;
}

Outcome run_seed(std::uint64_t seed, bool trace, Tally& tally) {
  World world(draw_plan(seed));
  world.set_trace(trace);
  return run_to_the_end(world, tally);
}

std::string replay_line(std::uint64_t seed) {
  return "replay: build/release/bin/atp sim --trace --seed " + std::to_string(seed);
}

}  // namespace atp::sim
