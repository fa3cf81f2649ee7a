#include "atp/cli/descendants.h"

#include <dirent.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "atp/base/check.h"

namespace atp {
namespace {

// The parent's id stands after the command's name, which is in parentheses and may contain any.
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

}  // namespace

void become_subreaper() { ATP_CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0); }

void kill_descendants() {
  for (;;) {
    for (const pid_t child : children()) kill(child, SIGKILL);
    // Each death may bring orphans; reap what has died and look again.
    if (waitpid(-1, nullptr, 0) < 0 && errno == ECHILD) return;
    while (waitpid(-1, nullptr, WNOHANG) > 0) {
    }
  }
}

}  // namespace atp
