// Runs a command and writes its peak resident memory, in KiB, into a file.
//
//     peak_memory FILE COMMAND [ARGUMENT]...
//
// A process inherits the high-water mark of its parent, so a child of Python seems to need at least
// as much as Python. This program is small, so its children are measured correctly.

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: peak_memory FILE COMMAND [ARGUMENT]...\n");
    return 2;
  }
  const pid_t child = fork();
  if (child == 0) {
    execv(argv[2], argv + 2);
    std::perror(argv[2]);
    _exit(127);
  }
  int status = 0;
  rusage usage{};
  if (child < 0 || wait4(child, &status, 0, &usage) != child) {
    std::perror("peak_memory");
    return 1;
  }
  std::FILE* file = std::fopen(argv[1], "w");
  if (file == nullptr || std::fprintf(file, "%ld\n", usage.ru_maxrss) < 0 ||
      std::fclose(file) != 0) {
    std::perror(argv[1]);
    return 1;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
