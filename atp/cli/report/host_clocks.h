#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "atp/cli/report/flight_record.h"

namespace atp {

// How far apart the hosts' clocks are, judged by collectives that no rank can end before all have
// begun them: these end at about the same time everywhere. The clock of the host of the lowest rank
// is the reference.
class HostClocks {
 public:
  // With fewer collectives, a difference is not trusted, and so not corrected.
  static constexpr std::size_t kFewest = 5;

  struct Difference {
    std::string host;
    std::int64_t ahead = 0;      // nanoseconds, the median
    std::size_t operations = 0;  // how many it is the median of
  };

  explicit HostClocks(const std::vector<FlightRecord>& records);

  // On the reference's clock.
  WallTime corrected(const std::string& host, WallTime time) const;
  const std::string& reference() const { return reference_; }
  // Of all other hosts, by name.
  const std::vector<Difference>& differences() const { return differences_; }

 private:
  std::string reference_;
  std::vector<Difference> differences_;
  std::map<std::string, std::int64_t> ahead_;
};

// Whether no rank can end this operation before all have begun it.
bool waits_for_all(const FlightRecord::Operation& operation);

}  // namespace atp
