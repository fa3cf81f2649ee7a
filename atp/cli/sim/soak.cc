#include "atp/cli/sim/soak.h"

#include <fmt/core.h>

#include <thread>
#include <vector>

namespace atp {

sim::Ending Soak::run() {
  std::vector<std::thread> threads;
  for (unsigned i = 1; i < range_.threads; ++i) threads.emplace_back([this] { play_seeds(); });
  play_seeds();
  for (std::thread& thread : threads) thread.join();
  return ending_;
}

void Soak::play_seeds() {
  sim::Tally tally;
  while (!failed_) {
    const std::uint64_t seed = next_++;
    if (seed - range_.first >= range_.count) break;
    note(seed, play_(seed, tally));
  }
  const std::lock_guard lock(mutex_);
  tally_.add(tally);
}

void Soak::note(std::uint64_t seed, const sim::Outcome& outcome) {
  const std::lock_guard lock(mutex_);
  if (outcome.ending == sim::Ending::kHeld) {
    ++held_;
    report_progress();
    return;
  }
  if (!failed_) ending_ = outcome.ending;
  failed_ = true;
  report_(fmt::format("{}{}\n{}\n", outcome.report, sim::describe(sim::draw_plan(seed)),
                      sim::replay_line(seed)));
}

void Soak::report_progress() {
  const auto now = std::chrono::steady_clock::now();
  if (failed_ || now - reported_ < report_interval_) return;
  reported_ = now;
  const double seconds = std::chrono::duration<double>(now - begin_).count();
  const double left =
      seconds / static_cast<double>(held_) * static_cast<double>(range_.count - held_);
  report_(fmt::format("sim: {} of {} seeds passed, {:.0f} s to go\n", held_, range_.count, left));
}

}  // namespace atp
