#include "atp/cli/guard.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>

#include "atp/cli/descendants.h"
#include "atp/cli/process.h"

namespace atp {
namespace {

// In the front process: passes signals on until the supervisor has ended.
int wait_for(pid_t supervisor) {
  const sigset_t signals = supervised_signals();
  int status = 0;
  while (waitpid(supervisor, &status, WNOHANG) == 0) {
    siginfo_t info{};
    if (sigwaitinfo(&signals, &info) < 0) continue;
    if (info.si_signo != SIGCHLD) kill(supervisor, info.si_signo);
  }
  kill_descendants();
  if (WIFSIGNALED(status)) spdlog::error("the supervisor of the ranks {}", how_it_ended(status));
  return exit_code_of(status);
}

[[noreturn]] void be_supervisor(const std::function<int(int)>& supervise, int front_fd) {
  // Of a session of its own, it and its children are out of reach of the terminal's signals, which
  // the front process passes on: each comes once.
  setsid();
  prctl(PR_SET_NAME, "atp-supervisor");
  become_subreaper();
  int code = 1;
  try {
    code = supervise(front_fd);
  } catch (const std::exception& error) {
    spdlog::error("{}", error.what());
  }
  kill_descendants();
  std::fflush(nullptr);
  _exit(code);
}

}  // namespace

sigset_t supervised_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGCHLD);
  for (const int signal : kPassedSignals) sigaddset(&signals, signal);
  return signals;
}

int run_guarded(const std::function<int(int)>& supervise) {
  int front[2];
  if (pipe2(front, O_CLOEXEC) != 0) {
    throw std::runtime_error(std::string("cannot make a pipe: ") + std::strerror(errno));
  }
  become_subreaper();
  const sigset_t signals = supervised_signals();
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  std::fflush(nullptr);
  const pid_t supervisor = fork();
  if (supervisor < 0) {
    throw std::runtime_error(std::string("cannot start a process: ") + std::strerror(errno));
  }
  if (supervisor == 0) {
    close(front[1]);
    be_supervisor(supervise, front[0]);
  }
  close(front[0]);
  const int code = wait_for(supervisor);
  close(front[1]);
  return code;
}

}  // namespace atp
