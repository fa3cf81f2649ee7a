#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "atp/cli/command/command.h"

// The log, on standard error: standard output is for a command's results. spdlog writes it; only
// log.cc includes it.

namespace atp {

// Adds --log-level and --log-format, which take effect before the command's callback runs. Misspelt
// variables are the first that is logged.
void add_log_options(const Command& command);

// From now on, what the command logs or prints is dropped if its reader has gone (`| head`, a log
// collector that died). Without this SIGPIPE ends the process, which is right for commands that
// only print; those that others depend on call it first.
void outlive_readers();
bool outlives_readers();

// Replaces the command's name as the prefix of each line.
void rename_log(const std::string& name);

// The current level, as a value of --log-level.
std::string log_level();

// The current format, as a value of --log-format.
std::string log_format();

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// What a line is about. A log in JSON has fields for it; in a log as text the message contains it.
struct LogAbout {
  std::optional<std::uint32_t> job;
  std::optional<std::uint32_t> incarnation;
  std::string tenant = {};  // whose job it is; empty: no keys
  std::vector<std::uint32_t> ranks;
  bool operator==(const LogAbout&) const = default;
};
struct LogLine {
  std::string text;
  LogAbout about;
};

void log(LogLevel level, const std::string& message, const LogAbout& about = {});
inline void log(LogLevel level, const LogLine& line) { log(level, line.text, line.about); }

template <class... Values>
void log_debug(fmt::format_string<Values...> format, Values&&... values) {
  log(LogLevel::kDebug, fmt::format(format, std::forward<Values>(values)...));
}
template <class... Values>
void log_info(fmt::format_string<Values...> format, Values&&... values) {
  log(LogLevel::kInfo, fmt::format(format, std::forward<Values>(values)...));
}
template <class... Values>
void log_warning(fmt::format_string<Values...> format, Values&&... values) {
  log(LogLevel::kWarning, fmt::format(format, std::forward<Values>(values)...));
}
template <class... Values>
void log_error(fmt::format_string<Values...> format, Values&&... values) {
  log(LogLevel::kError, fmt::format(format, std::forward<Values>(values)...));
}

}  // namespace atp
