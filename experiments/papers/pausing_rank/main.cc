// One rank of a job that pauses between its sums, as a model does that computes.
//
//     RANK=... WORLD_SIZE=... ATP_ROUTE=... pausing_rank BYTES SUMS PAUSE_MS SECONDS
//
// Sums SUMS tensors of BYTES each, pauses for PAUSE_MS on average, and so on for SECONDS. It checks
// every element of every sum; rank 0 prints the time of each (seconds since 1970). At the end each
// rank prints its counters. Exit codes: 1 if a sum fails or is wrong, 2 for wrong usage.

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "atp/collective/communicator.h"

namespace {

using Clock = std::chrono::steady_clock;

struct Pattern {
  std::size_t bytes;
  int sums;
  double pause_ms;
  double seconds;
};

// Sums a tensor whose first element is a rank's wish to stop, and whose other elements are its
// number + 1. So all ranks find out in the same sum that one of them wants to stop. Returns whether
// to stop, and sets `failed` if the sum has failed or is wrong.
bool sum_once(atp::Communicator& communicator, std::vector<float>& tensor, bool stop,
              bool& failed) {
  const auto ranks = static_cast<float>(communicator.world_size());
  const float expected = ranks * (ranks + 1) / 2;
  tensor.assign(tensor.size(), static_cast<float>(communicator.rank() + 1));
  tensor.front() = stop ? 1 : 0;
  const atp::Status status = communicator.all_reduce(tensor).wait();
  if (!status) {
    std::fprintf(stderr, "%s\n", status.error().message.c_str());
    failed = true;
    return true;
  }
  for (const float value : std::span(tensor).subspan(1)) {
    if (value == expected) continue;
    std::fprintf(stderr, "rank %d: found %g, expected %g\n", communicator.rank(), value, expected);
    failed = true;
    return true;
  }
  if (communicator.rank() == 0) {
    const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
    std::printf("%.3f\n", now.count());
    std::fflush(stdout);
  }
  return tensor.front() > 0;
}

int run(atp::Communicator& communicator, const Pattern& pattern, unsigned seed) {
  // Pauses vary, so that two jobs do not stay in step. They are the same on all ranks of a job.
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> varied(0.8, 1.2);
  std::vector<float> tensor(pattern.bytes / sizeof(float));
  const Clock::time_point end =
      Clock::now() + std::chrono::milliseconds(static_cast<long>(pattern.seconds * 1000));
  bool failed = false;
  bool stop = false;
  while (!stop) {
    for (int i = 0; i < pattern.sums && !stop; ++i) {
      stop = sum_once(communicator, tensor, Clock::now() > end, failed);
    }
    if (failed) return 1;
    std::this_thread::sleep_for(
        std::chrono::duration<double, std::milli>(pattern.pause_ms * varied(random)));
  }
  for (const auto& [name, value] : communicator.counters()) {
    std::printf("# %s %llu\n", std::string(name).c_str(), static_cast<unsigned long long>(value));
  }
  // The words of `atp bench`, for programs that run either.
  if (communicator.rank() == 0) std::printf("# Out of bounds values : 0 OK\n");
  return communicator.shutdown() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: pausing_rank BYTES SUMS PAUSE_MS SECONDS\n");
    return 2;
  }
  const Pattern pattern{std::strtoul(argv[1], nullptr, 10), std::atoi(argv[2]), std::atof(argv[3]),
                        std::atof(argv[4])};
  const auto options = atp::CommunicatorOptions::from_environment();
  if (!options) {
    std::fprintf(stderr, "%s\n", options.error().message.c_str());
    return 2;
  }
  const auto joined = atp::Communicator::connect(options.value());
  if (!joined) {
    std::fprintf(stderr, "%s\n", joined.error().message.c_str());
    return 1;
  }
  return run(*joined.value(), pattern, options.value().job.job);
}
