#pragma once

#include <cstdint>
#include <initializer_list>

#include "atp/base/random.h"
#include "atp/sim/plan.h"

// What the files that draw a plan share.

namespace atp::sim {

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed) {}

  bool chance(double probability) { return random_.chance(probability); }
  std::uint64_t between(std::uint64_t least, std::uint64_t most) {
    return least + random_.below(most - least + 1);
  }
  Duration time(Duration least, Duration most) {
    return Duration{static_cast<Duration::rep>(between(static_cast<std::uint64_t>(least.count()),
                                                       static_cast<std::uint64_t>(most.count())))};
  }
  template <class T>
  T one_of(std::initializer_list<T> list) {
    return *(list.begin() + random_.below(list.size()));
  }
  // Zero in half of the runs, otherwise up to `most`, small ones more likely than large ones.
  double probability(double most) {
    if (chance(0.5)) return 0;
    const double x = random_.uniform();
    return most * x * x;
  }
  std::uint64_t word() { return random_.next(); }

 private:
  Random random_;
};

std::uint32_t host_count(const Plan& plan);

// draw_jobs.cc
// A tree of height up to 3 over some of the plan's switches. Each has a level, and sends to one of
// a higher level or to the server. Workers are behind any of them, or have no switch at all.
void draw_tree(Draw& draw, const Plan& plan, JobPlan& job);
// Few values, so that small operations have many fragments; or many, to exercise the loops over the
// values of a packet.
std::uint16_t draw_value_count(Draw& draw, bool many);
JobPlan draw_job(Draw& draw, const Plan& plan, std::uint32_t index);

// draw_rare.cc: what only some seeds have. Each uses a generator of its own, so that the rest of a
// seed's world does not change when what it draws does.
void draw_tenants(Plan& plan);
void draw_unlike_switches(Plan& plan);
void draw_places(Plan& plan);
void draw_weights(Plan& plan);
void draw_papers_rules(Plan& plan);
void draw_sizes(Plan& plan);
void draw_discord(Plan& plan);
void draw_address_changes(Plan& plan);
bool draw_long_outages(Plan& plan);  // whether there are any

}  // namespace atp::sim
