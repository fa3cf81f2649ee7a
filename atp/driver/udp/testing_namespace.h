#pragma once

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

namespace atp {

// Runs `body` in a process with a network namespace of its own, whose loopback has this MTU; an
// ordinary user's is in a user namespace. Fails the test where `body` does, or where neither is
// permitted.
inline void in_small_network(int mtu, const std::function<void()>& body) {
  constexpr int kNotPermitted = 2;
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) {
      _exit(kNotPermitted);
    }
    const int any = socket(AF_INET, SOCK_DGRAM, 0);
    ifreq request{};
    std::strcpy(request.ifr_name, "lo");
    request.ifr_mtu = mtu;
    EXPECT_EQ(ioctl(any, SIOCSIFMTU, &request), 0);
    request.ifr_flags = IFF_UP;
    EXPECT_EQ(ioctl(any, SIOCSIFFLAGS, &request), 0);
    close(any);
    body();
    std::fflush(stdout);  // what gtest says of failures
    _exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
  ASSERT_NE(WEXITSTATUS(status), kNotPermitted)
      << "needs a network namespace, and this system permits an ordinary user none: run this as "
         "root, or with sudo, or ask `python -m lab.requirements` what forbids it";
  ASSERT_EQ(WEXITSTATUS(status), 0) << "see the failures above";
}

}  // namespace atp
