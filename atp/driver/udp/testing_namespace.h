#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <functional>
#include <string>

namespace atp {

inline bool write_to(const char* path, const std::string& text) {
  const int file = open(path, O_WRONLY | O_CLOEXEC);
  if (file < 0) return false;
  const bool written = write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  close(file);
  return written;
}

// Enters a network namespace; for an ordinary user, inside a user namespace. The user becomes root
// there: any other user would lose all rights in it with the first program started.
inline bool enter_namespaces() {
  if (unshare(CLONE_NEWNET) == 0) return true;
  const std::string user = std::to_string(getuid()), group = std::to_string(getgid());
  return unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0 &&
         write_to("/proc/self/uid_map", "0 " + user + " 1") &&
         write_to("/proc/self/setgroups", "deny") &&
         write_to("/proc/self/gid_map", "0 " + group + " 1");
}

// Runs `body` in a process with a network namespace of its own, whose loopback has this MTU. Fails
// the test if `body` fails, or if the system permits no namespace.
inline void in_small_network(int mtu, const std::function<void()>& body) {
  constexpr int kNotPermitted = 2;
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (!enter_namespaces()) _exit(kNotPermitted);
    const int any = socket(AF_INET, SOCK_DGRAM, 0);
    ifreq request{};
    std::strcpy(request.ifr_name, "lo");
    request.ifr_mtu = mtu;
    EXPECT_EQ(ioctl(any, SIOCSIFMTU, &request), 0);
    request.ifr_flags = IFF_UP;
    EXPECT_EQ(ioctl(any, SIOCSIFFLAGS, &request), 0);
    close(any);
    body();
    std::fflush(stdout);  // gtest's messages about failures
    _exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
  ASSERT_NE(WEXITSTATUS(status), kNotPermitted)
      << "needs a network namespace, and this system does not let an ordinary user create one: run "
         "this as root or with sudo; `python -m lab.requirements` says what forbids it";
  ASSERT_EQ(WEXITSTATUS(status), 0) << "see the failures above";
}

}  // namespace atp
