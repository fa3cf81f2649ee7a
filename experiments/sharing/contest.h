#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "atp/sim/plan.h"

// Jobs that share one switch and one server, in the simulator: how fast each is, and how much of it
// the switch has summed. Every sum of every rank is checked by the simulator's oracle.
//
// The hosts are those of the paper's testbed as far as it tells: 100 Gbit/s, and 17.5 ns that a
// host needs for each packet besides. All hosts hang on the switch, which takes no time of its own.

namespace atp::sharing {

struct Setup {
  std::uint32_t jobs = 2;
  std::uint16_t workers = 4;  // of each job, on hosts of their own
  std::uint32_t aggregators = 512;
  std::string placement = "rehash";  // or hash, linear
  bool partition = false;            // as many regions as jobs
  std::uint32_t quota = 0;
  std::uint32_t window = 128;  // most packets in flight of a worker, a power of two
  std::uint16_t values = 62;   // of a packet, as in the paper
  std::uint32_t fragments = 256;
  std::uint32_t operations = 64;
  std::uint32_t in_flight = 4;    // operations that a worker submits at once
  double compute_us = 0;          // pause after each operation: of half to one and a half of this
  double stagger_us = 3.7;        // between the starts of two jobs
  double delay_us = 1;            // of a link
  double sample_us = 0;           // 0: no series
  bool aimd = false;              // else the window is fixed
  std::uint64_t ecn_bytes = 0;    // queue of a link from which packets are marked
  std::uint64_t queue_bytes = 0;  // of a link; a packet that finds more is lost; 0: no limit
  double server_gbit = 100;       // what the server takes, less than its link perhaps (paper §D.1)
  std::uint64_t seed = 1;
};

// What happened while all jobs were at work: from the time when each has done a third of its
// operations until the first has done all.
struct Result {
  double measured_us = 0;
  std::vector<double> goodput;     // Gbit/s of sums, by job
  double share_in_switch = 0;      // of the fragments, those that came to the server as one packet
  double packets_to_server = 0;    // for each fragment
  double collisions = 0;           // of switch and packet, for each fragment
  double over_quota = 0;           // for each fragment
  double repeats = 0;              // packets that a worker sent again, for each fragment
  std::vector<std::string> wrong;  // whatever was not exact, or left something behind
};

// Of one interval: fragments completed, and those of them that came as one packet.
struct Sample {
  double us = 0;
  std::uint64_t fragments = 0;
  std::uint64_t in_switch = 0;
};

struct Report {
  Result result;
  std::vector<Sample> series;
};

sim::Plan plan_of(const Setup& setup);
Report play(const Setup& setup);

}  // namespace atp::sharing
