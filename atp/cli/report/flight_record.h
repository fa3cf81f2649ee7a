#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "atp/base/result.h"

// The flight recorder's file of one rank (docs/operate/flight-recorder.md), as plain structs, and a
// folder of them.

namespace atp {

using WallTime = std::int64_t;  // nanoseconds since 1970, by the clock of the rank's host

struct FlightRecord {
  struct Operation {
    std::size_t group = 0;  // in `groups`
    std::int64_t number = 0;
    std::string name;
    std::string path;
    std::string type;
    std::string sizes;  // "[2, 500]"; empty: no tensor
    std::int64_t input_values = 0;
    std::int64_t output_values = 0;
    std::int64_t tag = 0;
    bool is_transfer = false;
    WallTime begun = 0;
    std::optional<WallTime> completed;
    std::optional<WallTime> failed;

    std::optional<WallTime> ended() const { return completed ? completed : failed; }
  };
  struct Event {
    std::size_t group = 0;
    WallTime time = 0;
    std::string kind;
    std::vector<std::size_t> ranks;
    std::string text;
  };
  struct Group {
    std::string name;
    std::string description;
    std::string job;
    std::vector<std::size_t> ranks;
    WallTime opened = 0;
    std::optional<WallTime> closed;
    std::string failure;

    // The same for all members, and for no other group or start of it.
    std::string key() const;
  };

  std::string file;
  std::size_t rank = 0;
  std::string host;
  std::int64_t process = 0;
  std::string reason;
  WallTime written = 0;
  std::vector<Group> groups;
  std::vector<Operation> operations;  // collectives and transfers, each in order
  std::vector<Event> events;
};

// `file`: its name, for messages.
Result<FlightRecord> read_flight_record(std::string_view bytes, const std::string& file);

struct RecordFolder {
  std::vector<FlightRecord> records;  // by rank
  std::vector<std::string> problems;  // of files that are left out
};

// Reads the files of a folder whose names end in a number, or exactly these files. An error if none
// of them can be used.
Result<RecordFolder> read_record_folder(const std::vector<std::string>& paths);

}  // namespace atp
