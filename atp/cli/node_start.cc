#include "atp/cli/node_start.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "atp/cli/command.h"
#include "atp/driver/udp/event_loop.h"

namespace atp {
namespace {

constexpr Duration kStartLimit = std::chrono::seconds(10);

// The line that the node writes; empty if it ended or took too long.
std::string read_line(int fd) {
  const Instant end = clock_now() + kStartLimit;
  std::string line;
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - clock_now());
    pollfd waiting{fd, POLLIN, 0};
    if (left.count() <= 0) return {};
    if (poll(&waiting, 1, static_cast<int>(left.count())) <= 0) continue;
    char bytes[256];
    const ssize_t got = read(fd, bytes, sizeof bytes);
    if (got <= 0) return {};
    line.append(bytes, static_cast<std::size_t>(got));
    if (line.back() == '\n') return line.substr(0, line.size() - 1);
  }
}

}  // namespace

StartedNode start_node_process(const NodePlan& plan, const std::string& level) {
  int ready[2];
  if (pipe2(ready, O_CLOEXEC) != 0) {
    throw CommandError(fmt::format("cannot make a pipe: {}", std::strerror(errno)));
  }
  const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
  ProcessSpec spec;
  spec.path = "/proc/self/exe";
  spec.arguments = {"atp",         plan.role,     "--listen",
                    plan.listen,   "--port-file", fmt::format("/dev/fd/{}", ready[1]),
                    "--log-level", level};
  spec.arguments.insert(spec.arguments.end(), plan.arguments.begin(), plan.arguments.end());
  spec.stdout_fd = null;
  spec.kept_fds = {ready[1]};
  const Started started = start_process(spec);
  close(null);
  close(ready[1]);
  const std::string address = started.pid < 0 ? std::string() : read_line(ready[0]);
  close(ready[0]);
  if (started.pid < 0) throw CommandError(started.failure.message);
  if (address.empty()) {
    throw CommandError(fmt::format("{} could not be started on {}", plan.name, plan.listen));
  }
  return {started.pid, address};
}

}  // namespace atp
