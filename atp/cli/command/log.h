#pragma once

#include <fmt/core.h>

#include <string>
#include <utility>

#include "atp/cli/command/command.h"

// The log of the programs, on standard error, so that standard output stays the program's. spdlog
// writes it; it is known to log.cc alone.

namespace atp {

// --log-level; takes effect before the command's callback runs.
void add_log_option(const Command& command);

// What stands before each line, in place of the command's name.
void rename_log(const std::string& name);

// The level in force, as --log-level takes it.
std::string log_level();

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
