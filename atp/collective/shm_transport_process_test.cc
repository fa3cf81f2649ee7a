#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

#include "atp/collective/testing/cluster.h"
#include "atp/collective/testing/tasks.h"

// Ranks that share memory, as processes that are killed, stopped or forked.

namespace atp::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

// A rank in a process of its own. It takes part in one sum and is then killed or stopped, before or
// while it calls the next one.
class HostRankInProcess {
 public:
  HostRankInProcess(const CommunicatorOptions& options, int signal, milliseconds after,
                    std::size_t count)
      : pid_(fork()) {
    if (pid_ != 0) return;
    auto communicator = Communicator::connect(options);
    std::vector<float> tensor(count, 1);
    static_cast<void>(communicator.value()->all_reduce(tensor).wait());
    std::thread killer([&] {
      std::this_thread::sleep_for(after);
      kill(getpid(), signal);
    });
    // Sum until it ends.
    while (communicator.value()->all_reduce(tensor).wait().ok()) continue;
    pause();
  }
  ~HostRankInProcess() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

// The errors of the others, which sum until they get one.
std::vector<std::string> errors_when_rank_1_gets(int signal, milliseconds after, std::size_t count,
                                                 pid_t* pid) {
  std::vector<CommunicatorOptions> options = memory_options(3);
  // Only a stopped rank is found by the time-out.
  for (auto& o : options) o.operation_timeout = signal == SIGSTOP ? seconds(2) : seconds(20);
  const HostRankInProcess process(options[1], signal, after, count);
  *pid = process.pid();
  std::vector<std::string> errors(2);
  in_parallel(2, [&](std::size_t i) {
    const auto communicator = Communicator::connect(options[2 * i]);
    ASSERT_TRUE(communicator.ok()) << communicator.error().message;
    std::vector<float> tensor(count, 1);
    while (errors[i].empty()) {
      errors[i] = message(communicator.value()->all_reduce(tensor, {.here = i == 0}).wait());
    }
  });
  return errors;
}

TEST(ShmTransport, NamesARankThatIsKilledAtAnyMoment) {
  for (const std::size_t count : {100U, 5000U, 1'000'000U}) {
    for (const int after_ms : {0, 3, 10}) {
      pid_t pid = 0;
      for (const std::string& error :
           errors_when_rank_1_gets(SIGKILL, milliseconds(after_ms), count, &pid)) {
        EXPECT_THAT(error, HasSubstr("rank 1 (process " + std::to_string(pid) +
                                     ") is lost: its process has ended"));
      }
    }
  }
}

TEST(ShmTransport, NamesARankThatIsStopped) {
  for (const std::size_t count : {100U, 1'000'000U}) {
    pid_t pid = 0;
    for (const std::string& error :
         errors_when_rank_1_gets(SIGSTOP, milliseconds(5), count, &pid)) {
      EXPECT_THAT(error, HasSubstr("not ended within its timeout of 2 s: rank 1 (process " +
                                   std::to_string(pid) + ") is stopped"));
    }
  }
}

TEST(ShmTransport, IsNotForkedIntoChildren) {
  const Communicators communicators = join_all(memory_options(2));
  const pid_t child = fork();
  if (child == 0) {
    std::vector<float> tensor(10, 1);
    const std::string error = message(communicators[0]->all_reduce(tensor, {.here = true}).wait());
    _exit(error.find("forked") == std::string::npos ? 1 : 0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  in_parallel(2, [&](std::size_t rank) {
    std::vector<float> tensor(10, 1);
    EXPECT_EQ(message(communicators[rank]->all_reduce(tensor).wait()), "");
  });
  shut_down(communicators);
}

}  // namespace
}  // namespace atp::testing
