#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "atp/base/result.h"
#include "atp/collective/recorder/flight_recorder.h"

// Writes the recorder's files: one per rank, in the format of torch's flight recorder
// (docs/operate/flight-recorder.md). They are written by a thread of their own, on a failure, on
// SIGUSR1, and on SIGTERM before the process ends.

namespace atp {

// From ATP_FLIGHT_RECORDER, ATP_FLIGHT_RECORDER_SIZE and torch's variables.
struct RecorderSettings {
  static constexpr std::size_t kUsualSize = 2000;

  std::string prefix;  // of the files' paths, before the rank; empty: no files
  std::size_t size = kUsualSize;

  static Result<RecorderSettings> from_environment();
  // Those of the environment when this was first called; if they are wrong, the defaults, after a
  // warning.
  static const RecorderSettings& of_process();
};

// The first call prepares the folder, starts the thread and takes the signals, if the environment
// asks for files. A signal for which the program has its own handler is left alone.
void start_writing_records();
// Causes the files to be written soon. Does nothing if none were asked for.
void ask_for_records(const std::string& reason);
// Waits until everything asked for so far is written; at most this long.
void wait_for_records(std::chrono::milliseconds most);

// The prefix of the files in this folder.
std::string record_prefix(const std::string& folder);
// Writes the files at once, and returns their paths. `prefix`: as in the settings.
Result<std::vector<std::string>> write_records(const std::string& prefix,
                                               const std::string& reason);

// The contents of the file of one rank.
struct RecordHeader {
  std::size_t rank = 0;
  std::string host;
  int process = 0;
  std::string reason;
  std::chrono::nanoseconds steady_to_wall{0};  // what to add to the steady clock
  std::chrono::steady_clock::time_point written;
};
std::string encode_records(const Recording& recording, const RecordHeader& header);

}  // namespace atp
