#include "atp/collective/shm/rendezvous_door.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

namespace atp {
namespace {

using Clock = std::chrono::steady_clock;

std::string new_name() { return "atp-door-" + std::to_string(getpid()); }

Clock::time_point soon() { return Clock::now() + std::chrono::seconds(20); }

UnixLine caller(const std::string& name) {
  UnixLine line = UnixLine::make().value();
  EXPECT_TRUE(line.call(name, soon()).ok());
  return line;
}

TEST(RendezvousDoor, TellsThoseThatHaveCalledWhetherTheyWereLetInOrNot) {
  RendezvousDoor door = RendezvousDoor::open(new_name()).value();
  const UnixLine guest = caller(new_name());
  EXPECT_FALSE(door.hear(0, Clock::now()));
  const UnixLine waiting = caller(new_name());
  door.tell("it is over");
  EXPECT_EQ(guest.hear(100, soon()).value(), "it is over");
  EXPECT_EQ(waiting.hear(100, soon()).value(), "it is over");
}

// However fast they are: each calls again as soon as it is answered.
TEST(RendezvousDoor, CallersThatComeAgainAndAgainDoNotHoldItUp) {
  RendezvousDoor door = RendezvousDoor::open(new_name()).value();
  std::atomic<bool> over = false;
  const auto until = Clock::now() + std::chrono::seconds(10);
  std::vector<std::thread> callers(32);
  for (std::thread& each : callers) {
    each = std::thread([&] {
      while (!over && Clock::now() < until) {
        const UnixLine line = UnixLine::make().value();
        static_cast<void>(line.call(new_name(), until));
      }
    });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  door.tell("it is over");
  EXPECT_LT(Clock::now(), until - std::chrono::seconds(5));
  over = true;
  for (std::thread& each : callers) each.join();
}

TEST(RendezvousDoor, TellsProcessesOfOtherUsersNothing) {
  if (geteuid() != 0) {
    constexpr auto kWhy = "only root can become another user: run it as root (sudo ctest …)";
    if (std::getenv("ATP_ALL_TESTS") != nullptr) FAIL() << kWhy;
    GTEST_SKIP() << kWhy;
  }
  RendezvousDoor door = RendezvousDoor::open(new_name()).value();
  std::array<int, 2> called{};
  ASSERT_EQ(pipe(called.data()), 0);
  const std::string name = new_name();
  const pid_t other = fork();
  if (other == 0) {
    if (setuid(65534) != 0) _exit(2);
    const UnixLine line = caller(name);
    if (write(called[1], "", 1) != 1) _exit(3);
    _exit(line.hear(100, soon()).ok() ? 1 : 0);
  }
  char mark = 0;
  ASSERT_EQ(read(called[0], &mark, 1), 1);
  door.tell("it is over");
  int status = -1;
  waitpid(other, &status, 0);
  EXPECT_EQ(status, 0);
  for (const int end : called) close(end);
}

TEST(RendezvousDoor, RestsWhenItCannotAcceptACallAndTriesAgain) {
  RendezvousDoor door = RendezvousDoor::open(new_name()).value();
  const UnixLine line = caller(new_name());
  const auto lines = [&](Clock::time_point at) {
    std::vector<const UnixLine*> waited;
    door.add_lines(waited, at);
    return waited.size();
  };
  const auto now = Clock::now();
  EXPECT_EQ(lines(now), 1U);
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const int next = dup(STDERR_FILENO);
  close(next);
  const rlimit full{static_cast<rlim_t>(next), before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &full);
  EXPECT_FALSE(door.hear(0, now));
  setrlimit(RLIMIT_NOFILE, &before);
  ASSERT_TRUE(door.trouble());
  EXPECT_NE(door.trouble()->message.find("ulimit -n"), std::string::npos);
  EXPECT_EQ(lines(now), 0U) << "the listener stays readable";
  const auto rested = door.at(now);
  EXPECT_GT(rested, now);
  EXPECT_EQ(lines(rested), 1U);
  EXPECT_FALSE(door.hear(0, rested));
  EXPECT_FALSE(door.trouble());
  EXPECT_EQ(lines(rested), 2U) << "the caller is a guest";
}

}  // namespace
}  // namespace atp
