#pragma once

#include <signal.h>

#include <functional>

// Two processes that watch each other, so that nothing keeps running after a SIGKILL to either. The
// front process, which the user started, only forwards signals and waits. The supervisor, its
// child, starts and owns all others. When the front process dies, a pipe to the supervisor closes
// and the supervisor kills all its descendants. When the supervisor dies, the front process adopts
// the orphans and kills them. Both are subreapers, so this includes descendants that daemonize.

namespace atp {

inline constexpr int kPassedSignals[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGTERM,
                                         SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT};

// The value that comes with a SIGHUP of the kernel (sigqueue).
inline constexpr int kTerminalIsGone = 1;

// kPassedSignals and SIGCHLD.
sigset_t supervised_signals();

// Runs `supervise(front_fd)` in the supervisor and returns its exit code. The supervisor must end
// when front_fd becomes readable (end of file: the front process has died). It receives
// kPassedSignals; they and SIGCHLD are blocked there, to be read from a signalfd. After SIGTSTP the
// front process stops too, as the shell expects, and forwards SIGCONT when it continues.
int run_guarded(const std::function<int(int front_fd)>& supervise);

// Nothing that a command started may outlive it, even if its children start children, leave their
// process group, or ignore signals. A subreaper adopts every orphan below it, so it can kill one
// generation after another until it has no child left.

// Makes this process adopt orphans below it.
void become_subreaper();

// Kills (SIGKILL) and reaps all descendants of this process, which must be a subreaper. Returns
// when none is left.
void kill_descendants();

}  // namespace atp
