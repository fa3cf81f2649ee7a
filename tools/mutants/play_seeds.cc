#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "atp/sim/run_seed.h"

// Simulates the seeds 0 … COUNT − 1 until one fails, which is then the last line of its output.
// Exit codes as for `atp sim`. It is minimal because tools/mutate links it again for every mutant.

int main(int argc, char** argv) {
  const std::uint64_t count = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 0;
  atp::sim::Tally tally;
  for (std::uint64_t seed = 0; seed < count; ++seed) {
    // Print it first, because it may crash.
    std::fprintf(stderr, "seed %llu\n", static_cast<unsigned long long>(seed));
    const atp::sim::Outcome outcome = atp::sim::run_seed(seed, false, tally);
    if (outcome.ending != atp::sim::Ending::kHeld) return static_cast<int>(outcome.ending);
  }
  return 0;
}
