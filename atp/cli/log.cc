#include "atp/cli/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <vector>

namespace atp {
namespace {

const std::vector<std::string> kLevels = {"trace", "debug", "info", "warning", "error", "off"};

void start_log(const std::string& name, const std::string& level) {
  auto logger = std::make_shared<spdlog::logger>(
      name, std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
  logger->set_pattern("%H:%M:%S.%e %n %^%l%$: %v");
  logger->set_level(spdlog::level::from_str(level));
  logger->flush_on(spdlog::level::trace);
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace

void add_log_option(CLI::App& command) {
  const std::string name = "atp " + command.get_name();
  const auto level = std::make_shared<std::string>("info");
  command.add_option("--log-level", *level, "How much to log on standard error")
      ->check(CLI::IsMember(kLevels))
      ->capture_default_str();
  command.parse_complete_callback([name, level] { start_log(name, *level); });
}

std::string log_level() {
  const spdlog::string_view_t name = spdlog::level::to_string_view(spdlog::get_level());
  return {name.data(), name.size()};
}

}  // namespace atp
