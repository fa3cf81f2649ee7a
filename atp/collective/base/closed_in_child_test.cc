#include "atp/collective/base/closed_in_child.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <future>
#include <thread>

namespace atp {
namespace {

bool is_socket(int descriptor) {
  struct stat status{};
  return fstat(descriptor, &status) == 0 && S_ISSOCK(status.st_mode);
}

bool in_child(bool (*says)(int), int descriptor) {
  const pid_t child = fork();
  if (child == 0) _exit(says(descriptor) ? 0 : 1);
  int status = -1;
  waitpid(child, &status, 0);
  return status == 0;
}

TEST(ClosedInChild, AForkedChildLosesTheSocketAndTheParentKeepsIt) {
  std::array<int, 2> ends{};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
  {
    const ClosedInChild closed({ends[0]});
    EXPECT_FALSE(in_child(is_socket, ends[0]));
    EXPECT_TRUE(in_child([](int fd) { return fcntl(fd, F_GETFD) == FD_CLOEXEC; }, ends[0]))
        << "the number must stay taken";
    EXPECT_TRUE(in_child(is_socket, ends[1]));
    EXPECT_TRUE(is_socket(ends[0]));
  }
  EXPECT_TRUE(in_child(is_socket, ends[0]));
  close(ends[0]);
  close(ends[1]);
}

// Otherwise a fork in between would inherit the descriptor for good.
TEST(ClosedInChild, WhileADescriptorIsMadeNoThreadForks) {
  std::atomic<bool> forked{false};
  std::thread other;
  const ClosedInChild closed([&] {
    const int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    std::promise<void> begun;
    other = std::thread([&, &begun = begun] {
      begun.set_value();
      EXPECT_FALSE(in_child(is_socket, descriptor));
      forked = true;
    });
    begun.get_future().wait();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_FALSE(forked);
    return descriptor;
  });
  other.join();
  EXPECT_TRUE(forked);
  EXPECT_TRUE(is_socket(closed.descriptors().front()));
  close(closed.descriptors().front());
}

}  // namespace
}  // namespace atp
