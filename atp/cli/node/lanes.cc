#include "atp/cli/node/lanes.h"

#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

#include "atp/cli/command/command.h"
#include "atp/cli/command/log.h"

namespace atp {
namespace {

// How a lane tells the process that watches it that it has drained.
constexpr int kLaneDrained = 10;

struct Lane {
  pid_t pid = -1;  // 0: ended
  int ready = -1;  // a pipe that carries its address once it listens
};

sigset_t watched_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) sigaddset(&signals, signal);
  return signals;
}

[[noreturn]] void fail(const char* what) {
  throw CommandError(fmt::format("cannot start a lane: {}: {}", what, std::strerror(errno)));
}

// Runs in the process that watches the lanes.
class Lanes {
 public:
  explicit Lanes(std::string_view role) : role_(role) {}

  // True in the new process, which the kernel notifies when this one dies.
  bool start(ServeOptions& options, const sigset_t& usual_signals) {
    std::array<int, 2> ends{};
    if (pipe(ends.data()) != 0) fail("pipe");
    const pid_t watcher = getpid();
    const pid_t pid = fork();
    if (pid < 0) fail("fork");
    if (pid > 0) {
      close(ends[1]);
      lanes_.push_back({pid, ends[0]});
      return false;
    }
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != watcher) _exit(1);
    close(ends[0]);
    for (const Lane& lane : lanes_) close(lane.ready);
    sigprocmask(SIG_SETMASK, &usual_signals, nullptr);
    options.port_file = fmt::format("/dev/fd/{}", ends[1]);
    options.die_with_parent = false;
    return true;
  }

  // False if a lane ended before it was ready.
  bool wait_until_ready() {
    for (Lane& lane : lanes_) {
      char first = 0;
      const bool listens = read(lane.ready, &first, 1) == 1;
      close(lane.ready);
      if (!listens) return false;
    }
    return true;
  }

  // Returns when all lanes have ended, with the exit code of the first that failed.
  int watch() {
    const sigset_t signals = watched_signals();
    reap();
    while (any_runs()) {
      siginfo_t info{};
      if (sigwaitinfo(&signals, &info) < 0) continue;
      if (info.si_signo == SIGCHLD) {
        reap();
      } else {
        // From the kernel it means that the terminal is gone, and a lane would not know.
        const bool terminal_gone = info.si_signo == SIGHUP && info.si_code > 0;
        pass_on(terminal_gone ? SIGTERM : info.si_signo);
      }
    }
    return code_;
  }

  void pass_on(int signal) {
    stopping_ = stopping_ || signal != SIGHUP;
    for (const Lane& lane : lanes_) {
      if (lane.pid > 0) kill(lane.pid, signal);
    }
  }

 private:
  bool any_runs() const {
    return std::any_of(lanes_.begin(), lanes_.end(), [](const Lane& lane) { return lane.pid > 0; });
  }

  void reap() {
    for (Lane& lane : lanes_) {
      int status = 0;
      if (lane.pid <= 0 || waitpid(lane.pid, &status, WNOHANG) != lane.pid) continue;
      lane.pid = 0;
      const int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
      if (code == kLaneDrained) continue;
      if (code_ == 0) code_ = code;
      if (stopping_) continue;
      log_error("lane {} of the {} {}; stopping the others", &lane - lanes_.data(), role_,
                WIFSIGNALED(status)
                    ? fmt::format("was killed by SIG{}", sigabbrev_np(WTERMSIG(status)))
                    : fmt::format("ended with code {}", code));
      pass_on(SIGTERM);
    }
  }

  const std::string role_;
  std::vector<Lane> lanes_;
  bool stopping_ = false;
  int code_ = 0;
};

// "out/server.jsonl" becomes "out/server-2.jsonl" for lane 2.
std::string file_of_lane(const std::string& file, std::uint32_t lane) {
  if (file.empty()) return file;
  const std::filesystem::path path(file);
  return path.parent_path() /
         fmt::format("{}-{}{}", path.stem().string(), lane, path.extension().string());
}

// Port 0 means a free port for every lane.
std::string metrics_of_lane(const ServeOptions& options, std::uint32_t lane) {
  if (options.metrics.empty()) return {};
  Endpoint at = metrics_endpoint(options);
  if (at.port != 0 && at.port + options.lanes - 1 > 65535) {
    throw CommandError(fmt::format("--metrics {} with --lanes {} also needs the {} ports after it, "
                                   "and ports end at 65535: use a lower port",
                                   options.metrics, options.lanes, options.lanes - 1),
                       kWrongUsage);
  }
  if (at.port != 0) at.port = static_cast<std::uint16_t>(at.port + lane);
  return to_string(at);
}

}  // namespace

ServeOptions options_of_lane(const ServeOptions& options, const Endpoint& listen,
                             std::uint32_t lane) {
  if (options.lanes == 1) return options;
  const std::uint32_t last = listen.port + options.lanes - 1;
  if (listen.port == 0 || last > 65535) {
    throw CommandError(fmt::format("--lanes {} needs the port of --listen and the {} after it, {}",
                                   options.lanes, options.lanes - 1,
                                   listen.port == 0 ? "but port 0 is not fixed: choose a port"
                                                    : "and ports end at 65535: use a lower port"),
                       kWrongUsage);
  }
  Endpoint own = listen;
  own.port = static_cast<std::uint16_t>(listen.port + lane);
  ServeOptions result = options;
  result.listen = to_string(own);
  result.stats_file = file_of_lane(options.stats_file, lane);
  result.metrics = metrics_of_lane(options, lane);
  return result;
}

std::string text_of_lanes(const ServeOptions& options, const Endpoint& listen) {
  const std::string first = to_string(listen);
  return options.lanes == 1 ? first : fmt::format("{}-{}", first, listen.port + options.lanes - 1);
}

void serve_in_lanes(std::string_view role, const ServeOptions& options,
                    const std::function<ServeEnd(const ServeOptions&)>& serve_one) {
  outlive_readers();
  if (options.lanes == 1) {
    serve_one(options);
    return;
  }
  const Endpoint listen = listen_endpoint(options);
  obey_parent(options);
  const sigset_t signals = watched_signals();
  sigset_t usual{};
  sigprocmask(SIG_BLOCK, &signals, &usual);
  Lanes lanes(role);
  for (std::uint32_t lane = 0; lane < options.lanes; ++lane) {
    ServeOptions own = options_of_lane(options, listen, lane);
    if (!lanes.start(own, usual)) continue;
    rename_log(fmt::format("atp {}, lane {}", role, lane));
    throw CommandEnd(serve_one(own) == ServeEnd::kDrained ? kLaneDrained : 0);
  }
  const bool ready = lanes.wait_until_ready();
  if (ready) write_port_file(options, text_of_lanes(options, listen));
  if (const int code = lanes.watch(); code != 0) throw CommandEnd(code);
}

}  // namespace atp
