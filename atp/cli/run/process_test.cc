#include "atp/cli/run/process.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "atp/cli/run/guard.h"

namespace atp {
namespace {

int wait_status_of(pid_t pid) {
  int status = 0;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  return status;
}

ProcessSpec shell(const std::string& script) { return {.arguments = {"sh", "-c", script}}; }

// Runs the script and returns what it wrote.
std::string output_of(ProcessSpec spec) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  spec.stdout_fd = ends[1];
  const Started started = start_process(spec);
  close(ends[1]);
  std::string text;
  char bytes[1000];
  for (ssize_t got = 0; (got = read(ends[0], bytes, sizeof bytes)) > 0;) text.append(bytes, got);
  close(ends[0]);
  wait_status_of(started.pid);
  return text;
}

TEST(Process, EndsWithAnExitCodeAsAShellReportsIt) {
  const int exited = wait_status_of(start_process(shell("exit 3")).pid);
  EXPECT_EQ(exit_code_of(exited), 3);
  EXPECT_EQ(how_it_ended(exited), "exited with code 3");
  const int killed = wait_status_of(start_process(shell("kill -9 $$")).pid);
  EXPECT_EQ(exit_code_of(killed), 137);
  EXPECT_EQ(how_it_ended(killed), "was killed by signal 9 (Killed)");
}

TEST(Process, AProgramThatCannotRunIsNamed) {
  const Started absent = start_process({.arguments = {"no-such-program"}});
  EXPECT_EQ(absent.pid, -1);
  EXPECT_TRUE(absent.failure.not_found);
  EXPECT_EQ(absent.failure.message, "cannot run 'no-such-program': command not found");
  const Started folder = start_process({.arguments = {"/tmp"}});
  EXPECT_EQ(folder.pid, -1);
  EXPECT_FALSE(folder.failure.not_found);
  EXPECT_EQ(folder.failure.message, "cannot run '/tmp': Permission denied");
}

TEST(Process, GetsTheVariablesAndAnEmptyInput) {
  ProcessSpec spec = shell("cat; echo $RANK");
  spec.environment = {{"RANK", "5"}};
  EXPECT_EQ(output_of(spec), "5\n");
}

TEST(Process, LeadsAGroupAndReceivesSignalsThatThisProcessIgnores) {
  const auto before = signal(SIGTERM, SIG_IGN);
  const Started started = start_process(shell("sleep 1000 & wait"));
  signal(SIGTERM, before);
  EXPECT_EQ(getpgid(started.pid), started.pid);
  kill(-started.pid, SIGTERM);
  EXPECT_EQ(exit_code_of(wait_status_of(started.pid)), 143);
}

TEST(Descendants, AreKilledEvenIfTheyLeftTheirGroupAndLostTheirParent) {
  int alive[2];  // every descendant holds the write end
  ASSERT_EQ(pipe(alive), 0);
  const pid_t reaper = fork();
  if (reaper == 0) {
    close(alive[0]);
    become_subreaper();
    wait_status_of(
        start_process(shell("trap '' TERM HUP; (setsid sleep 1000 &) ; sleep 1000 &")).pid);
    start_process(shell("sleep 1000 & sleep 1000"));
    kill_descendants();
    _exit(waitpid(-1, nullptr, WNOHANG) == -1 ? 0 : 1);
  }
  close(alive[1]);
  EXPECT_EQ(wait_status_of(reaper), 0);
  char byte = 0;
  EXPECT_EQ(read(alive[0], &byte, 1), 0);  // end of file: no process holds it
  close(alive[0]);
}

}  // namespace
}  // namespace atp
