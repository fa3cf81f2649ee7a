#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

// What more aggregators would bring to the jobs of a switch. docs/operate/status.md says why.

namespace atp {

// Gradients that have looked for an aggregator, of a job or of all jobs.
struct Wanted {
  double gradients = 0;
  double collided = 0;  // found none

  void add(double more_gradients, double more_collided) {
    gradients += more_gradients;
    collided += more_collided;
  }
  double share() const { return gradients > 0 ? std::min(1.0, collided / gradients) : 0; }
};

// How many aggregators instead of `total` would leave some free if what found none had got one.
inline std::uint64_t enough_aggregators(std::uint64_t total, const Wanted& of_all_jobs) {
  constexpr double kMost = 1 << 23;  // half of what a switch may have
  if (of_all_jobs.collided <= 0) return total;
  const double found = std::max(1.0, of_all_jobs.gradients - of_all_jobs.collided);
  const double wanted = static_cast<double>(total) * of_all_jobs.gradients / found;
  return std::bit_floor(static_cast<std::uint64_t>(std::clamp(wanted, 1.0, kMost))) * 2;
}

// How much faster a job would be with that many, as a share of its speed, at most. `limit`: what
// the options of the switch, which has `total`, let the job hold.
inline double gain_of(const Wanted& of_job, std::uint64_t children, std::uint64_t limit,
                      std::uint64_t total) {
  if (limit < total || children == 0) return 0;
  return of_job.share() * static_cast<double>(children - 1);
}

}  // namespace atp
