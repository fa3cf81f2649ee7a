#include "atp/cli/run/process.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "atp/cli/command/command.h"
#include "atp/cli/command/log.h"
#include "atp/driver/udp/event_loop.h"

namespace atp {
namespace {

std::vector<char*> pointers(const std::vector<std::string>& arguments) {
  std::vector<char*> result;
  result.reserve(arguments.size() + 1);
  for (const std::string& argument : arguments) {
    result.push_back(const_cast<char*>(argument.c_str()));
  }
  result.push_back(nullptr);
  return result;
}

void reset_signals() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGPIPE, SIGCHLD}) {
    ::signal(signal, SIG_DFL);
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

void connect_standard_streams(const ProcessSpec& spec) {
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  dup2(null, STDIN_FILENO);
  if (spec.stdout_fd >= 0) dup2(spec.stdout_fd, STDOUT_FILENO);
  if (spec.stderr_fd >= 0) dup2(spec.stderr_fd, STDERR_FILENO);
}

// Runs in the new process: executes the program, or reports why it cannot.
[[noreturn]] void become_program(const ProcessSpec& spec, pid_t parent, int report_fd) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);  // the parent died before prctl()
  reset_signals();
  connect_standard_streams(spec);
  for (const int fd : spec.kept_fds) fcntl(fd, F_SETFD, 0);
  for (const auto& [name, value] : spec.environment) setenv(name.c_str(), value.c_str(), 1);
  const std::vector<char*> arguments = pointers(spec.arguments);
  if (spec.path.empty()) {
    execvp(arguments[0], arguments.data());
  } else {
    execv(spec.path.c_str(), arguments.data());
  }
  const int problem = errno;
  [[maybe_unused]] const ssize_t written = write(report_fd, &problem, sizeof problem);
  _exit(127);
}

Started failed(const ProcessSpec& spec, int problem) {
  std::string message =
      fmt::format("cannot run '{}': {}", spec.arguments[0],
                  problem == ENOENT ? "command not found" : std::strerror(problem));
  if (spec.arguments[0].ends_with(".py")) {
    message += fmt::format("; name its interpreter too: python {}", spec.arguments[0]);
  }
  return {-1, {std::move(message), problem == ENOENT}};
}

constexpr Duration kStartLimit = std::chrono::seconds(10);

// The line that the node writes; empty if it ended or timed out.
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

Started start_process(const ProcessSpec& spec) {
  int report[2];  // closed by a successful exec, else carries the errno
  if (pipe2(report, O_CLOEXEC) != 0) return failed(spec, errno);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) become_program(spec, parent, report[1]);
  const int fork_problem = errno;
  close(report[1]);
  int problem = 0;
  const bool has_problem = pid < 0 || read(report[0], &problem, sizeof problem) > 0;
  close(report[0]);
  if (pid < 0) return failed(spec, fork_problem);
  if (has_problem) {
    waitpid(pid, nullptr, 0);
    return failed(spec, problem);
  }
  return {pid, {}};
}

int exit_code_of(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

std::string how_it_ended(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    return fmt::format("was killed by signal {} ({})", WTERMSIG(wait_status),
                       strsignal(WTERMSIG(wait_status)));
  }
  return fmt::format("exited with code {}", WEXITSTATUS(wait_status));
}

StartedNode start_node_process(const NodePlan& plan, const std::string& level) {
  int ready[2];
  if (pipe2(ready, O_CLOEXEC) != 0) {
    throw CommandError(fmt::format("cannot create a pipe: {}", std::strerror(errno)));
  }
  const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
  ProcessSpec spec;
  spec.path = "/proc/self/exe";
  spec.arguments = {"atp",         plan.role,     "--listen",
                    plan.listen,   "--port-file", fmt::format("/dev/fd/{}", ready[1]),
                    "--log-level", level,         "--log-format",
                    log_format()};
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
    throw CommandError(fmt::format("cannot start {} on {}", plan.name, plan.listen));
  }
  return {started.pid, address};
}

}  // namespace atp
