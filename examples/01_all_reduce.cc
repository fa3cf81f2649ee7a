// The smallest program that sums a vector over all ranks. Run it under `atp run`, which starts one
// copy of the program for each rank, and, with --switch, a switch and a server on this machine:
//
//   build/release/bin/atp run -n 4 --switch -- build/release/bin/examples/01_all_reduce
//
// Link with the CMake target atp_collective; nothing else is needed.

#include <cstdio>
#include <memory>
#include <vector>

#include "atp/collective/communicator.h"

int main() {
  // Who am I, how many are we, and which way is the server? `atp run` says so by RANK, WORLD_SIZE
  // and ATP_…; a program that knows better may fill in the options itself.
  const auto options = atp::CommunicatorOptions::from_environment();
  if (!options) {
    std::fprintf(stderr, "%s\n", options.error().message.c_str());
    return 2;
  }

  // Blocks until all ranks are here.
  const auto joined = atp::Communicator::connect(options.value());
  if (!joined) {
    std::fprintf(stderr, "%s\n", joined.error().message.c_str());
    return 1;
  }
  atp::Communicator& communicator = *joined.value();
  const auto ranks = static_cast<float>(communicator.world_size());

  // Rank r contributes r + 1 everywhere, so that each element sums to 1 + 2 + … + N.
  std::vector<float> gradient(1000, static_cast<float>(communicator.rank() + 1));
  const float expected = ranks * (ranks + 1) / 2;

  // Returns at once; several operations may be in flight. wait() tells how it ended.
  atp::Handle sum = communicator.all_reduce(gradient);
  const atp::Status status = sum.wait();
  if (!status) {
    std::fprintf(stderr, "%s\n", status.error().message.c_str());
    return 1;
  }
  for (const float value : gradient) {
    if (value == expected) continue;
    std::fprintf(stderr, "rank %d: found %g, expected %g\n", communicator.rank(), value, expected);
    return 1;
  }
  std::printf("rank %d of %zu: %zu values, each %g, as expected\n", communicator.rank(),
              communicator.world_size(), gradient.size(), expected);

  // Leaves in peace. Without it the destructor leaves at once, which fails what others have in
  // flight.
  const atp::Status left = communicator.shutdown();
  return left ? 0 : 1;
}
