#pragma once

#include <signal.h>

#include <functional>

// Two processes that watch each other, so that no SIGKILL to either leaves anything running. The
// front process, which the user started, only passes signals on and waits; the supervisor, its
// child, starts and owns all others. When the front process dies, a pipe to the supervisor closes,
// which then kills all its descendants; when the supervisor dies, the front process adopts the
// orphans and does the same. Both are subreapers, so descendants that daemonize are found too.

namespace atp {

inline constexpr int kPassedSignals[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGTERM,
                                         SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT};

// These and SIGCHLD.
sigset_t supervised_signals();

// Runs `supervise(front_fd)` in the supervisor and returns the exit code that it returns. The
// supervisor must end when front_fd becomes readable (end of file: the front process has died).
// Signals of kPassedSignals arrive at the supervisor, where they and SIGCHLD are blocked, to be
// taken from a signalfd. After SIGTSTP the front process stops as well, as the shell expects of
// whom it stops, and passes SIGCONT on when it goes on.
int run_guarded(const std::function<int(int front_fd)>& supervise);

// Nothing that a command started may outlive it, whatever its children do: start children of their
// own, leave their process group, or ignore signals. A subreaper adopts every orphan below it, so
// it can kill generation after generation until it has no child left.

// Makes this process adopt orphans below it.
void become_subreaper();

// Kills (SIGKILL) and reaps all descendants of this process, a subreaper. Returns when none is
// left.
void kill_descendants();

}  // namespace atp
