#pragma once

#include <fmt/core.h>

#include <string>
#include <utility>

#include "atp/cli/command/command.h"

// The log, on standard error: standard output is for a command's results. spdlog writes it; only
// log.cc includes it.

namespace atp {

// Adds --log-level and --log-format, which take effect before the command's callback runs.
void add_log_options(const Command& command);

// Replaces the command's name as the prefix of each line.
void rename_log(const std::string& name);

// The current level, as a value of --log-level.
std::string log_level();

// The current format, as a value of --log-format.
std::string log_format();

enum class LogLevel { kDebug, kInfo, kWarning, kError };
void log(LogLevel level, const std::string& message);

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
