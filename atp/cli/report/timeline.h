#pragma once

#include <string>
#include <utility>
#include <vector>

#include "atp/cli/report/flight_record.h"
#include "atp/cli/report/host_clocks.h"
#include "atp/cli/report/story.h"

namespace atp {

// The events of all ranks, and their operations that the findings concern, in order of time by
// corrected clocks.
class Timeline {
 public:
  Timeline(const HostClocks& clocks, const StoryOptions& options, WallTime end)
      : clocks_(clocks), options_(options), begin_(end - options.last_ns) {}

  void add(const FlightRecord& record, const Story& story);
  std::vector<TimelineRow> rows() &&;

 private:
  void row(const FlightRecord& record, WallTime time, std::string text);

  const HostClocks& clocks_;
  const StoryOptions& options_;
  const WallTime begin_;
  std::vector<TimelineRow> rows_;
};

}  // namespace atp
