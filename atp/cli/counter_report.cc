#include "atp/cli/counter_report.h"

#include <fmt/format.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <nlohmann/json.hpp>

namespace atp {
namespace {

std::uint64_t value_of(const CounterSnapshot& counters, std::string_view name) {
  for (const auto& [counter, value] : counters) {
    if (counter == name) return value;
  }
  return 0;
}

}  // namespace

std::string to_json_line(double time_s, std::string_view role, const CounterSnapshot& counters) {
  nlohmann::ordered_json values = nlohmann::ordered_json::object();
  for (const auto& [name, value] : counters) values[std::string(name)] = value;
  return nlohmann::ordered_json{{"time_s", time_s}, {"role", role}, {"counters", values}}.dump() +
         "\n";
}

Result<StatsFile> StatsFile::open(const std::string& path) {
  std::ofstream out(path, std::ios::trunc);
  if (!out) {
    return Error{fmt::format("cannot write --stats file {}: {}", path, std::strerror(errno))};
  }
  return StatsFile(std::move(out));
}

void StatsFile::append(std::string_view role, const CounterSnapshot& counters) {
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  out_ << to_json_line(now.count(), role, counters) << std::flush;
}

std::vector<std::string> CounterWatch::lines(const CounterSnapshot& counters) {
  std::vector<std::string> result;
  for (std::size_t i = 0; i < watched_.size(); ++i) {
    const std::uint64_t value = value_of(counters, watched_[i].name);
    if (value > last_[i]) {
      const std::uint64_t rise = value - last_[i];
      const std::string_view what = rise == 1 ? watched_[i].one : watched_[i].several;
      result.push_back(fmt::format("{} {} ({} so far)", rise, what, value));
    }
    last_[i] = value;
  }
  return result;
}

}  // namespace atp
