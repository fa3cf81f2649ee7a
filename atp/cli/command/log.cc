#include "atp/cli/command/log.h"

#include <fmt/format.h>
#include <signal.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "atp/base/variable_names.h"

namespace atp {
namespace {

const std::vector<std::string> kLevels = {"trace", "debug", "info", "warning", "error", "off"};

const std::vector<std::string> kFormats = {"text", "json"};

// With date and offset, so that the logs of several hosts and days can be merged.
constexpr const char* kTime = "%Y-%m-%dT%H:%M:%S.%e%z";

// The message as a JSON string, whatever bytes it has; spdlog's patterns cannot escape.
class JsonMessage : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& out) override {
    const std::string text(message.payload.data(), message.payload.size());
    out.append(nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<JsonMessage>();
  }
};

// What the message that this thread logs is about; null: nothing. The sink formats it in log()'s
// call, so it need not be copied.
thread_local const LogAbout* about_now = nullptr;

// `, "job": 7, "incarnation": 1, "tenant": "vision", "ranks": [2]`, as far as they are known.
class JsonAbout : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg&, const std::tm&, spdlog::memory_buf_t& out) override {
    if (about_now == nullptr) return;
    std::string text;
    if (about_now->job) text += fmt::format(R"(, "job": {})", *about_now->job);
    if (about_now->incarnation) {
      text += fmt::format(R"(, "incarnation": {})", *about_now->incarnation);
    }
    if (!about_now->tenant.empty()) text += fmt::format(R"(, "tenant": "{}")", about_now->tenant);
    if (!about_now->ranks.empty()) {
      text += fmt::format(R"(, "ranks": [{}])", fmt::join(about_now->ranks, ", "));
    }
    out.append(text);
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<JsonAbout>();
  }
};

std::unique_ptr<spdlog::formatter> formatter_of(const std::string& format) {
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  if (format == "json") {
    formatter->add_flag<JsonMessage>('*');
    formatter->add_flag<JsonAbout>('&');
    formatter->set_pattern(std::string(R"({"time": ")") + kTime +
                           R"(", "level": "%l", "command": "%n"%&, "message": %*})");
  } else {
    formatter->set_pattern(std::string(kTime) + " %n %^%l%$: %v");
  }
  return formatter;
}

std::string current_format = "text";

void start_log(const std::string& name, spdlog::level::level_enum level) {
  auto logger = std::make_shared<spdlog::logger>(
      name, std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
  logger->set_formatter(formatter_of(current_format));
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

void add_log_options(const Command& command) {
  const std::string name = "atp " + command.name();
  const auto level = std::make_shared<std::string>("info");
  command.add_option("--log-level", *level, "How much to log on standard error")
      .one_of(kLevels)
      .show_default();
  const auto format = std::make_shared<std::string>("text");
  command
      .add_option("--log-format", *format,
                  "Write each message as a line of text or as a JSON object")
      .one_of(kFormats)
      .show_default();
  command.before_callback([name, level, format] {
    current_format = *format;
    start_log(name, spdlog::level::from_str(*level));
    for (const std::string& sentence : untold_misspelt_variables()) {
      log_warning("environment variable {}", sentence);
    }
  });
}

void outlive_readers() { signal(SIGPIPE, SIG_IGN); }

bool outlives_readers() {
  struct sigaction now{};
  return sigaction(SIGPIPE, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

void rename_log(const std::string& name) { start_log(name, spdlog::get_level()); }

std::string log_level() {
  const spdlog::string_view_t name = spdlog::level::to_string_view(spdlog::get_level());
  return {name.data(), name.size()};
}

std::string log_format() { return current_format; }

void log(LogLevel level, const std::string& message, const LogAbout& about) {
  about_now = &about;
  spdlog::log(level_of(level), "{}", message);
  about_now = nullptr;
}

}  // namespace atp
