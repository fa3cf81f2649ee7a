#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "atp/cli/metrics/node_metrics.h"

namespace atp {
namespace {

void add(MetricsText& metrics, std::string_view name, double value) {
  begin_metric(name, metrics);
  metrics.sample({}, value);
}

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

double resident_bytes() {
  std::ifstream file("/proc/self/statm");
  double all = 0;
  double resident = 0;
  file >> all >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE));
}

double open_descriptors() {
  std::error_code problem;
  const std::filesystem::directory_iterator files("/proc/self/fd", problem);
  return problem ? 0 : static_cast<double>(std::distance(begin(files), end(files)) - 1);
}

// Boot time plus the process's start after it, in ticks: the 22nd field. Fields are counted from
// the end of the program's name, which may contain spaces.
double start_time() {
  std::ifstream stat("/proc/self/stat");
  std::string line;
  std::getline(stat, line);
  std::istringstream words(line.substr(std::min(line.rfind(')') + 1, line.size())));
  std::string word;
  for (int i = 3; i <= 22; ++i) words >> word;
  const double ticks = word.empty() ? 0 : std::stod(word);
  std::ifstream system("/proc/stat");
  double boot = 0;
  while (system >> word) {
    if (word == "btime") system >> boot;
  }
  return boot + ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace

void add_process_metrics(MetricsText& metrics) {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  add(metrics, "process_cpu_seconds_total", seconds(usage.ru_utime) + seconds(usage.ru_stime));
  add(metrics, "process_resident_memory_bytes", resident_bytes());
  add(metrics, "process_open_fds", open_descriptors());
  static const double kStarted = start_time();  // the kernel takes long to write /proc/stat
  add(metrics, "process_start_time_seconds", kStarted);
}

}  // namespace atp
