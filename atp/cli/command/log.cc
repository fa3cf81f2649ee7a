#include "atp/cli/command/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <vector>

namespace atp {
namespace {

const std::vector<std::string> kLevels = {"trace", "debug", "info", "warning", "error", "off"};

void start_log(const std::string& name, spdlog::level::level_enum level) {
  auto logger = std::make_shared<spdlog::logger>(
      name, std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
  logger->set_pattern("%H:%M:%S.%e %n %^%l%$: %v");
  logger->set_level(level);
  logger->flush_on(spdlog::level::trace);
  spdlog::set_default_logger(std::move(logger));
}

spdlog::level::level_enum level_of(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug: return spdlog::level::debug;
    case LogLevel::kInfo: return spdlog::level::info;
    case LogLevel::kWarning: return spdlog::level::warn;
    case LogLevel::kError: return spdlog::level::err;
  }
  return spdlog::level::err;
}

}  // namespace

void add_log_option(const Command& command) {
  const std::string name = "atp " + command.name();
  const auto level = std::make_shared<std::string>("info");
  command.add_option("--log-level", *level, "How much to log on standard error")
      .one_of(kLevels)
      .show_default();
  command.before_callback([name, level] { start_log(name, spdlog::level::from_str(*level)); });
}

void rename_log(const std::string& name) { start_log(name, spdlog::get_level()); }

std::string log_level() {
  const spdlog::string_view_t name = spdlog::level::to_string_view(spdlog::get_level());
  return {name.data(), name.size()};
}

void log(LogLevel level, const std::string& message) {
  spdlog::log(level_of(level), "{}", message);
}

}  // namespace atp
