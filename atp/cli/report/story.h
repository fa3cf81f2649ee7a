#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "atp/base/result.h"
#include "atp/cli/report/flight_record.h"
#include "atp/cli/report/host_clocks.h"
#include "atp/cli/status/finding.h"

// One story from the records of all ranks: who waited for whom, in which operation, since when.

namespace atp {

// Of one group. Its `kind` is "failed", "mismatch" (ranks submitted different operations) or
// "waiting"; its `ranks` are those concerned, which others waited for.
struct Diagnosis : Finding {
  // What one rank did in the operation. Times are corrected.
  struct Part {
    std::size_t rank = 0;
    std::string operation;  // what it submitted under this number
    std::optional<WallTime> begun;
    std::optional<WallTime> ended;
    std::string state;  // "completed", "failed", "unfinished", "not begun"
  };

  std::string evidence = "none";  // why it names the ranks, for programs
  std::string because;            // the same for people; empty: nobody is known to be to blame
  std::string group;              // its name and description
  std::string operation;  // "all_reduce #17 of [1000] float32 values"; empty: none is concerned
  std::vector<std::size_t> waiting;  // ranks that waited
  std::optional<WallTime> since;     // the first of them began to wait
  std::optional<WallTime> until;     // the first of them stopped waiting
  std::size_t told_by = 0;           // the rank with the first failure
  std::string failure;               // its message; empty: nothing has failed
  std::vector<Part> parts;           // by rank
};

struct TimelineRow {
  WallTime time = 0;
  std::size_t rank = 0;
  std::string host;
  std::string text;
};

// Of one group: who came last to its completed operations.
struct GroupLateness {
  std::string group;
  std::size_t rank = 0;
  std::size_t last = 0;        // operations to which it came last
  std::size_t operations = 0;  // that all ranks have completed
  std::int64_t median = 0;     // nanoseconds behind the first rank, in these `last` ones
};

struct StoryOptions {
  std::int64_t last_ns = 10'000'000'000;  // of the timeline, before its end
  bool all_operations = false;            // in the timeline
};

struct Story {
  std::string job;                 // that of the largest group
  std::vector<std::size_t> ranks;  // with a record
  std::vector<std::size_t> without_record;
  std::vector<std::string> hosts;
  std::vector<Diagnosis> findings;  // the first failure first
  std::vector<GroupLateness> lateness;
  std::vector<TimelineRow> timeline;
  WallTime end = 0;  // of the timeline: the first failure, or the last file
};

// An error if the records are of different jobs, or of different starts of one.
Status check_one_job(const std::vector<FlightRecord>& records);
Story tell_story(const std::vector<FlightRecord>& records, const HostClocks& clocks,
                 const StoryOptions& options);

// The ranks that a failure's text names: "rank 3", "ranks 1, 2 and 5", "ranks 4 to 7".
std::vector<std::size_t> ranks_named_in(const std::string& text);

std::string operation_text(const FlightRecord::Operation& operation);

}  // namespace atp
