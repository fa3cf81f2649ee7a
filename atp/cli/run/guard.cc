#include "atp/cli/run/guard.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "atp/base/check.h"
#include "atp/cli/command/log.h"
#include "atp/cli/run/process.h"

namespace atp {
namespace {

// The parent's id follows the command's name, which is in parentheses and may itself contain some.
pid_t parent_of(const char* pid_text) {
  char line[512];
  std::FILE* file = std::fopen((std::string("/proc/") + pid_text + "/stat").c_str(), "re");
  if (file == nullptr) return -1;
  const std::size_t length = std::fread(line, 1, sizeof line - 1, file);
  std::fclose(file);
  line[length] = '\0';
  const char* end_of_name = std::strrchr(line, ')');
  int parent = -1;
  char state = 0;
  if (end_of_name == nullptr || std::sscanf(end_of_name, ") %c %d", &state, &parent) != 2)
    return -1;
  return parent;
}

std::vector<pid_t> children() {
  std::vector<pid_t> result;
  DIR* processes = opendir("/proc");
  if (processes == nullptr) return result;
  const pid_t self = getpid();
  while (const dirent* entry = readdir(processes)) {
    const pid_t pid = std::atoi(entry->d_name);
    if (pid > 0 && parent_of(entry->d_name) == self) result.push_back(pid);
  }
  closedir(processes);
  return result;
}

// Runs in the front process: forwards signals until the supervisor has ended.
int wait_for(pid_t supervisor) {
  const sigset_t signals = supervised_signals();
  int status = 0;
  while (waitpid(supervisor, &status, WNOHANG) == 0) {
    siginfo_t info{};
    if (sigwaitinfo(&signals, &info) < 0) continue;
    if (info.si_signo == SIGCHLD) continue;
    // The supervisor must know whether a SIGHUP is from the kernel: then the terminal is gone.
    if (info.si_signo == SIGHUP && info.si_code > 0) {
      sigqueue(supervisor, SIGHUP, {.sival_int = kTerminalIsGone});
    } else {
      kill(supervisor, info.si_signo);
    }
    if (info.si_signo == SIGTSTP) raise(SIGSTOP);
  }
  kill_descendants();
  if (WIFSIGNALED(status)) log_error("the supervisor of the ranks {}", how_it_ended(status));
  return exit_code_of(status);
}

[[noreturn]] void be_supervisor(const std::function<int(int)>& supervise, int front_fd) {
  // In a separate session, the supervisor and its children do not get the terminal's signals
  // directly. The front process forwards them, so each arrives once.
  setsid();
  prctl(PR_SET_NAME, "atp-supervisor");
  become_subreaper();
  int code = 1;
  try {
    code = supervise(front_fd);
  } catch (const std::exception& error) {
    log_error("{}", error.what());
  }
  kill_descendants();
  std::fflush(nullptr);
  _exit(code);
}

}  // namespace

void become_subreaper() { ATP_CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0); }

void kill_descendants() {
  for (;;) {
    for (const pid_t child : children()) kill(child, SIGKILL);
    // Each death may orphan more processes: reap the dead and look again.
    if (waitpid(-1, nullptr, 0) < 0 && errno == ECHILD) return;
    while (waitpid(-1, nullptr, WNOHANG) > 0) {
    }
  }
}

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
    throw std::runtime_error(std::string("cannot create a pipe: ") + std::strerror(errno));
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
