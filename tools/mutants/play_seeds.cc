#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "atp/sim/run_seed.h"

// Plays the seeds 0 … COUNT − 1 until one fails, which it leaves as the last line of its output;
// exit codes as of `atp sim`. tools/mutate links it again for every mutant, so it has no more in
// it.

int main(int argc, char** argv) {
  const std::uint64_t count = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 0;
  atp::sim::Tally tally;
  for (std::uint64_t seed = 0; seed < count; ++seed) {
    // Before it is played: it may end in a crash.
    std::fprintf(stderr, "seed %llu\n", static_cast<unsigned long long>(seed));
    const atp::sim::Outcome outcome = atp::sim::run_seed(seed, false, tally);
    if (outcome.ending != atp::sim::Ending::kHeld) return static_cast<int>(outcome.ending);
  }
  return 0;
}
