// A minimal program that sums a vector over all ranks; group.h has the other collectives. Run it
// under `atp run`, which starts one copy per rank and, with --switch, a switch and a server on this
// machine:
//
//   build/release/bin/atp run -n 4 --switch -- build/release/bin/examples/01_all_reduce
//
// Link with the CMake target atp_collective; nothing else is needed.

#include <cstdio>
#include <memory>
#include <vector>

#include "atp/collective/group.h"

int main() {
  // Rank, number of ranks and route come from the variables RANK, WORLD_SIZE and ATP_… that `atp
  // run` sets. A program may also fill in the options itself.
  const auto options = atp::CommunicatorOptions::from_environment();
  if (!options) {
    std::fprintf(stderr, "%s\n", options.error().message.c_str());
    return 2;
  }

  // Blocks until all ranks have joined.
  const auto joined = atp::Group::connect(options.value());
  if (!joined) {
    std::fprintf(stderr, "%s\n", joined.error().message.c_str());
    return 1;
  }
  atp::Group& group = *joined.value();
  const auto ranks = static_cast<float>(group.world_size());

  // Rank r contributes r + 1 to each element, so every element sums to 1 + 2 + … + N.
  std::vector<float> gradient(1000, static_cast<float>(group.rank() + 1));
  const float expected = ranks * (ranks + 1) / 2;

  // Returns immediately; several operations may be in flight. wait() returns the outcome.
  atp::Handle sum = group.all_reduce(gradient);
  const atp::Status status = sum.wait();
  if (!status) {
    std::fprintf(stderr, "%s\n", status.error().message.c_str());
    return 1;
  }
  for (const float value : gradient) {
    if (value == expected) continue;
    std::fprintf(stderr, "rank %d: found %g, expected %g\n", group.rank(), value, expected);
    return 1;
  }
  std::printf("rank %d of %zu: %zu values, each %g, as expected\n", group.rank(),
              group.world_size(), gradient.size(), expected);

  // Leaves the job in an orderly way. Without this the destructor would leave immediately, and
  // operations in flight on other ranks would fail.
  const atp::Status left = group.shutdown();
  return left ? 0 : 1;
}
