#include "atp/collective/base/quiet_thread.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>

#include "atp/collective/testing/threads.h"

namespace atp {
namespace {

bool is_blocked(int signal) {
  sigset_t blocked;
  pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  return sigismember(&blocked, signal) == 1;
}

TEST(QuietThread, GetsNoSignalsWhileItsCreatorStillDoes) {
  std::atomic<bool> blocked_there = false;
  quiet_thread("atp-test", [&] { blocked_there = is_blocked(SIGTERM); }).value().join();
  EXPECT_TRUE(blocked_there);
  EXPECT_FALSE(is_blocked(SIGTERM));
}

// Otherwise a program that cannot start more threads could not even be interrupted.
TEST(QuietThread, AThreadThatCannotBeStartedLeavesSignalsUnchanged) {
  const testing::RoomForThreads none(0);
  EXPECT_FALSE(quiet_thread("atp-test", [] {}).ok());
  EXPECT_FALSE(is_blocked(SIGTERM));
  EXPECT_FALSE(is_blocked(SIGINT));
}

}  // namespace
}  // namespace atp
