#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "atp/core/dataplane/aggregator_table.h"
#include "atp/sim/plan.h"

// Simulates jobs that share one switch and one server: the speed of each, and how much of it the
// switch summed. The simulator's oracle checks every sum of every rank.
//
// The hosts are those of the paper's testbed as far as they are described: 100 Gbit/s, and 17.5 ns
// per packet in a host. All hosts of a rack are connected to its switch, which adds no time.

namespace atp::sharing {

struct Setup {
  std::uint32_t jobs = 2;
  // By job, the last entry for all further jobs.
  std::vector<std::uint16_t> workers{4};  // on separate hosts
  std::vector<std::uint32_t> fragments{256};
  std::vector<double> compute_us{0};  // mean pause after each operation: half to 1.5 times that
  std::uint32_t aggregators = 512;
  std::string placement = "rehash";  // or hash, linear
  bool partition = false;            // one region per job
  std::uint32_t quota = 0;
  std::uint32_t places = kMostPlaces;
  bool first_come = false;
  // By job; without room a job ignores collisions. Without weights all jobs have the same one.
  std::vector<std::uint8_t> room{1};
  std::vector<std::uint32_t> weights;
  // What the paper's workers do about losses: every repeat is a RESEND, three answers to others are
  // a loss at once, and a mark halves the window, too.
  bool resend_only = false;
  bool no_tolerance = false;
  bool halve = false;
  std::uint32_t window = 128;  // maximum packets in flight per worker, a power of two
  std::uint16_t values = 62;   // per packet, as in the paper
  std::vector<std::uint32_t> operations{64};  // by job
  std::uint32_t in_flight = 4;                // operations that a worker submits at once
  double stagger_us = 3.7;                    // between the starts of two jobs
  std::vector<double> late_us{0};             // by job: starts so much later still
  double delay_us = 1;                        // per link
  double sample_us = 0;                       // sampling interval; 0: no series
  bool aimd = false;                          // otherwise the window is fixed
  std::uint64_t ecn_bytes = 0;                // a link's queue length from which packets are marked
  std::uint64_t queue_bytes = 0;              // a link's maximum queue length; 0: no limit
  std::uint32_t host_ns = 18;                 // of a host, per packet that it receives
  double server_gbit = 100;  // what the server can receive, possibly less than its link (§D.1)
  // The workers of a job are spread over the racks in equal runs; the server is in the last rack.
  std::uint32_t racks = 1;
  // The levels of switches that sum. 2: those of the workers' racks, then that of the server's. 1:
  // those of the workers' racks alone. 0: none.
  std::uint32_t levels = 2;
  double rack_gbit = 0;     // of the link between a rack and the others; 0: no limit
  double loss = 0;          // probability per packet, from and to rank 0 of each job
  bool split_jobs = false;  // series of each job; simulates at half the speed
  std::uint64_t seed =
      1;  // of the jobs' numbers and thus of where their fragments collide; of pauses
};

// Results over the time in which all jobs were running: from when each had done a third of its
// operations until the first had done all. If there was no such time, they are 0.
struct Result {
  double measured_us = 0;
  std::vector<double> goodput;     // Gbit/s of sums, by job
  double share_in_switch = 0;      // share of fragments that reached the server as one packet
  double packets_to_server = 0;    // per fragment
  double collisions = 0;           // of packets in the switch, per fragment
  double over_quota = 0;           // per fragment
  double repeats = 0;              // packets that a worker repeated, per fragment
  double marked = 0;               // answers with ECN, over all workers, per fragment
  std::uint64_t window_cuts = 0;   // by ECN, over all workers
  std::uint64_t room_cuts = 0;     // likewise, by collisions
  std::vector<std::string> wrong;  // wrong sums and anything left over
};

// One interval: completed fragments, and those that arrived as one packet.
struct Sample {
  double us = 0;
  std::uint64_t fragments = 0;
  std::uint64_t in_switch = 0;
  std::vector<std::uint64_t> in_switch_by_job;  // with split_jobs
};

struct Report {
  Result result;
  std::vector<Sample> series;
  // By job: when rank 0 had the sum of each operation.
  std::vector<std::vector<std::int64_t>> completed_ps;
};

sim::Plan plan_of(const Setup& setup);
Report play(const Setup& setup);

}  // namespace atp::sharing
