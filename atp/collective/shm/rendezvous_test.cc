#include "atp/collective/shm/rendezvous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "atp/collective/testing/rendezvous.h"

namespace atp {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;

using Outcomes = std::vector<Result<HostRendezvousOutcome>>;

// Lets the ranks `who` meet, each in a thread.
Outcomes meet(const JobKey& job, std::size_t world_size, const std::vector<std::size_t>& who,
              milliseconds timeout) {
  Outcomes outcomes;
  for (std::size_t i = 0; i < who.size(); ++i) outcomes.emplace_back(Error{"not tried"});
  std::vector<std::thread> threads;
  threads.reserve(who.size());
  for (std::size_t i = 0; i < who.size(); ++i) {
    threads.emplace_back([&, i] {
      Result<HostRendezvousOutcome> outcome =
          meet_on_host({.job = job, .rank = who[i], .world_size = world_size, .timeout = timeout});
      if (outcome) {
        std::destroy_at(&outcomes[i]);
        std::construct_at(&outcomes[i], std::move(outcome));
      } else {
        std::destroy_at(&outcomes[i]);
        std::construct_at(&outcomes[i], outcome.error());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

// Of this process: all others are taken.
void leave_descriptors(rlim_t free) {
  const auto next = static_cast<rlim_t>(dup(STDERR_FILENO));
  close(static_cast<int>(next));
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = next + free;
  setrlimit(RLIMIT_NOFILE, &limit);
}

TEST(HostRendezvous, GivesAllRanksTheSameMemoryAndMakesThemVisibleToEachOther) {
  Outcomes outcomes = meet(new_job(), 4, {3, 2, 1, 0}, milliseconds(10'000));
  for (auto& outcome : outcomes) {
    ASSERT_TRUE(outcome.ok()) << outcome.error().message;
    ASSERT_TRUE(outcome.value().place);
  }
  outcomes[0].value().place->segment.row(0, 0)[5] = std::byte{9};
  for (auto& outcome : outcomes) {
    EXPECT_EQ(outcome.value().place->segment.row(0, 0)[5], std::byte{9});
  }
  const Presence& of_rank_3 = outcomes[0].value().place->presence;
  for (const std::size_t rank : {0U, 1U, 2U}) EXPECT_TRUE(of_rank_3.is_there(rank));
  outcomes[2].value().place.reset();  // rank 1
  EXPECT_FALSE(of_rank_3.is_there(1));
}

TEST(HostRendezvous, NamesTheRanksThatDoNotCome) {
  const Outcomes outcomes = meet(new_job(), 4, {0, 2}, milliseconds(2000));
  for (const auto& outcome : outcomes) {
    ASSERT_FALSE(outcome.ok());
    EXPECT_THAT(outcome.error().message,
                HasSubstr("ranks 1 and 3 did not contact rank 0 on this host within 2 s"));
  }
}

// Not only when the last rank has come, or the time is up.
TEST(HostRendezvous, NamesARankThatEndsWhileAnotherIsStillAwaited) {
  const JobKey job = new_job();
  std::thread waiting([&] {
    const auto outcome =
        meet_on_host({.job = job, .rank = 2, .world_size = 4, .timeout = milliseconds(100'000)});
    ASSERT_FALSE(outcome.ok());
    EXPECT_THAT(outcome.error().message, HasSubstr("rank 0 has lost rank 1"));
  });
  std::thread ending([&] {
    const UnixLine line = line_of(job, 1, 4);
    std::this_thread::sleep_for(milliseconds(200));
  });
  const auto begun = std::chrono::steady_clock::now();
  const auto outcome =
      meet_on_host({.job = job, .rank = 0, .world_size = 4, .timeout = milliseconds(100'000)});
  ASSERT_FALSE(outcome.ok());
  EXPECT_THAT(outcome.error().message,
              HasSubstr("rank 0 has lost rank 1 while the ranks of this host were meeting"));
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(50));
  ending.join();
  waiting.join();
}

// A rank with less patience than rank 0 is told who is missing, and does not take rank 0 for lost.
TEST(HostRendezvous, NamesTheMissingRanksToTheLeastPatientRank) {
  const JobKey job = new_job();
  std::thread hasty([&] {
    const auto outcome =
        meet_on_host({.job = job, .rank = 1, .world_size = 3, .timeout = milliseconds(2000)});
    ASSERT_FALSE(outcome.ok());
    EXPECT_THAT(outcome.error().message, HasSubstr("rank 2 did not contact rank 0"));
  });
  const auto outcome =
      meet_on_host({.job = job, .rank = 0, .world_size = 3, .timeout = milliseconds(100'000)});
  ASSERT_FALSE(outcome.ok());
  EXPECT_THAT(outcome.error().message, HasSubstr("rank 2 did not contact rank 0"));
  hasty.join();
}

// All ranks are told, even those that called after the one that differs.
TEST(HostRendezvous, RanksWithDifferentNumberFormatsAllLearnWhichUsesWhich) {
  const JobKey job = new_job();
  std::vector<std::thread> ranks;
  ranks.reserve(3);
  for (std::size_t rank = 0; rank < 3; ++rank) {
    ranks.emplace_back([&job, rank] {
      if (rank == 2) std::this_thread::sleep_for(milliseconds(100));
      const auto outcome = meet_on_host({.job = job,
                                         .rank = rank,
                                         .world_size = 3,
                                         .timeout = milliseconds(10'000),
                                         .numbers = rank == 1 ? "halves" : "wholes"});
      ASSERT_FALSE(outcome.ok());
      EXPECT_THAT(outcome.error().message,
                  AllOf(HasSubstr("rank 1 uses halves, rank 0 uses wholes; "),
                        HasSubstr("the same ATP_SCALE, ATP_WIRE and ATP_EXACT")));
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

TEST(HostRendezvous, ReportsAMissingRank0) {
  const Outcomes outcomes = meet(new_job(), 2, {1}, milliseconds(200));
  ASSERT_FALSE(outcomes[0].ok());
  EXPECT_THAT(outcomes[0].error().message,
              AllOf(HasSubstr("rank 1 could not contact rank 0 on this host within 0.2 s"),
                    HasSubstr("network namespace")));
}

TEST(HostRendezvous, TurnsStrangersAwayAndContinues) {
  const JobKey job = new_job();
  std::thread others([&] {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    for (int i = 0; i < 3;) {
      const Result<UnixLine> line = UnixLine::make();
      const Status called = line.value().call(name_of(job), until);
      if (!called && std::chrono::steady_clock::now() < until) continue;
      if (i == 1) static_cast<void>(line.value().say("hello?"));
      ++i;
    }
    EXPECT_TRUE(meet_on_host({.job = job, .rank = 1, .world_size = 2}).ok());
  });
  EXPECT_TRUE(meet_on_host({.job = job, .rank = 0, .world_size = 2}).ok());
  others.join();
}

TEST(HostRendezvous, TellsACallerThatItsRankIsTaken) {
  const Outcomes outcomes = meet(new_job(), 3, {0, 1, 1}, milliseconds(2000));
  std::vector<std::string> errors;
  for (const auto& outcome : outcomes) {
    ASSERT_FALSE(outcome.ok());
    errors.push_back(outcome.error().message);
  }
  EXPECT_THAT(errors, ::testing::Contains(HasSubstr("rank 1 of this job is taken")));
  EXPECT_THAT(errors[0], HasSubstr("rank 2 did not contact"));
}

TEST(HostRendezvous, TellsACallerThatItsVersionDiffers) {
  const JobKey job = new_job();
  std::thread other([&] {
    const auto told = line_of(job, 1, 2, 7)
                          .hear(1000, std::chrono::steady_clock::now() + std::chrono::seconds(20));
    ASSERT_TRUE(told.ok()) << told.error().message;
    EXPECT_THAT(told.value(), HasSubstr("runs a different version of atp"));
    EXPECT_TRUE(meet_on_host({.job = job, .rank = 1, .world_size = 2}).ok());
  });
  EXPECT_TRUE(meet_on_host({.job = job, .rank = 0, .world_size = 2}).ok());
  other.join();
}

TEST(HostRendezvous, WithoutMemoryTellsAllRanksWhichOneLacksIt) {
  // No file may be as large as a segment. This runs in a process of its own, because the limit
  // stays.
  const JobKey job = new_job();
  const pid_t leader = fork();
  if (leader == 0) {
    const rlimit small{1 << 20, 1 << 20};
    setrlimit(RLIMIT_FSIZE, &small);
    const auto outcome = meet_on_host({.job = job, .rank = 0, .world_size = 2});
    _exit(outcome.ok() && !outcome.value().place ? 0 : 1);
  }
  const auto outcome = meet_on_host({.job = job, .rank = 1, .world_size = 2});
  ASSERT_TRUE(outcome.ok()) << outcome.error().message;
  EXPECT_FALSE(outcome.value().place);
  EXPECT_THAT(outcome.value().why_not,
              AllOf(HasSubstr("rank 0: cannot reserve"), HasSubstr("bytes of shared memory")));
  int status = -1;
  waitpid(leader, &status, 0);
  EXPECT_EQ(status, 0);
}

// If a sandbox refuses sockets, or a process cannot open another, waiting would change nothing.
TEST(HostRendezvous, WithoutUnixSocketsFailsAtOnceAndSaysWhatToSet) {
  for (const std::size_t rank : {0, 1}) {
    const pid_t child = fork();
    if (child == 0) {
      const rlimit none{0, 0};
      const JobKey job = new_job();  // which opens the system's randomness
      setrlimit(RLIMIT_NOFILE, &none);
      const auto begun = std::chrono::steady_clock::now();
      const auto outcome = meet_on_host(
          {.job = job, .rank = rank, .world_size = 2, .timeout = std::chrono::minutes(5)});
      const bool is_right =
          !outcome &&
          outcome.error().message.starts_with(
              "rank " + std::to_string(rank) +
              " cannot meet the other ranks of this host: cannot create a Unix socket: "
              "Too many open files: raise this process's limit of open files (ulimit -n); "
              "fix that, or start all ranks with ATP_HOST_MEMORY=0");
      _exit(is_right && std::chrono::steady_clock::now() - begun < std::chrono::minutes(1) ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0) << "rank " << rank;
  }
}

// The kernel silently drops a descriptor for which a process has no room.
TEST(HostRendezvous, WithoutRoomForADescriptorTellsAllRanksWhichOneLacksIt) {
  const JobKey job = new_job();
  const pid_t follower = fork();
  if (follower == 0) {
    leave_descriptors(1);  // for the line
    const auto outcome = meet_on_host({.job = job, .rank = 1, .world_size = 2});
    _exit(outcome.ok() && !outcome.value().place && !outcome.value().why_not.empty() ? 0 : 1);
  }
  const auto outcome = meet_on_host({.job = job, .rank = 0, .world_size = 2});
  ASSERT_TRUE(outcome.ok()) << outcome.error().message;
  EXPECT_FALSE(outcome.value().place);
  EXPECT_THAT(outcome.value().why_not, AllOf(HasSubstr("rank 1: "), HasSubstr("ulimit -n")));
  int status = -1;
  waitpid(follower, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(HostRendezvous, TellsAllOthersWhichRankWasLost) {
  const JobKey job = new_job();
  std::thread others([&] {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    UnixLine first = line_of(job, 1, 3);
    const UnixLine second = line_of(job, 2, 3);
    const auto passed = second.take(1000, until);
    ASSERT_TRUE(passed.ok()) << passed.error().message;
    close(passed.value().descriptor);
    EXPECT_TRUE(second.say("").ok());  // which is not read before rank 1 is lost
    first = UnixLine();
    auto told = second.take(1000, until);
    while (told.ok() && told.value().is_note) told = second.take(1000, until);
    ASSERT_TRUE(told.ok()) << told.error().message;
    EXPECT_THAT(told.value().text, HasSubstr("rank 0 has lost rank 1"));
  });
  EXPECT_FALSE(meet_on_host({.job = job, .rank = 0, .world_size = 3}).ok());
  others.join();
}

TEST(HostRendezvous, DoesNotWaitForARankThatIsKilledMeanwhile) {
  const JobKey job = new_job();
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  const pid_t follower = fork();
  if (follower == 0) {
    const UnixLine line = line_of(job, 1, 2);
    _exit(0);
  }
  const auto outcome = meet_on_host({.job = job, .rank = 0, .world_size = 2});
  waitpid(follower, nullptr, 0);
  ASSERT_FALSE(outcome.ok());
  EXPECT_THAT(outcome.error().message,
              HasSubstr("rank 0 has lost rank 1 while the ranks of this host were meeting"));
  EXPECT_LT(std::chrono::steady_clock::now(), until);
}

// Each of them could say its Hello for two seconds.
TEST(HostRendezvous, SilentCallersDoNotHoldUpTheOthers) {
  const JobKey job = new_job();
  std::vector<UnixLine> silent(100);  // more than are heard at a time
  std::thread others([&] {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    for (UnixLine& line : silent) {
      line = UnixLine::make().value();
      while (!line.call(name_of(job), until) && std::chrono::steady_clock::now() < until) continue;
    }
    EXPECT_TRUE(meet_on_host({.job = job, .rank = 1, .world_size = 2}).ok());
  });
  const auto outcome =
      meet_on_host({.job = job, .rank = 0, .world_size = 2, .timeout = std::chrono::seconds(15)});
  EXPECT_TRUE(outcome.ok()) << outcome.error().message;
  others.join();
}

// Until the time is up: meanwhile it may get one.
TEST(HostRendezvous, TellsCallersThatTheirLeaderHasNoDescriptorLeft) {
  const JobKey job = new_job();
  const pid_t leader = fork();
  if (leader == 0) {
    leave_descriptors(2);  // for the listener and one of two callers
    std::string said;
    const auto outcome = meet_on_host({.job = job,
                                       .rank = 0,
                                       .world_size = 3,
                                       .timeout = milliseconds(2000),
                                       .warn = [&](const std::string& line) { said += line; }});
    const bool is_right = !outcome.ok() && said.find("rank 0 waits for rank ") == 0 &&
                          said.find("ulimit -n") != std::string::npos;
    _exit(is_right ? 0 : 1);
  }
  for (const auto& outcome : meet(job, 3, {1, 2}, milliseconds(20'000))) {
    ASSERT_FALSE(outcome.ok());
    EXPECT_THAT(outcome.error().message,
                AllOf(HasSubstr("rank 0 cannot meet the other ranks"), HasSubstr("ulimit -n")));
  }
  int status = -1;
  waitpid(leader, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(HostRendezvous, GoesOnWhenItsLeaderHasADescriptorAgain) {
  const JobKey job = new_job();
  const pid_t leader = fork();
  if (leader == 0) {
    rlimit before{};
    getrlimit(RLIMIT_NOFILE, &before);
    leave_descriptors(1);  // for the listener
    std::thread later([&] {
      std::this_thread::sleep_for(milliseconds(500));
      setrlimit(RLIMIT_NOFILE, &before);
    });
    const auto outcome = meet_on_host({.job = job, .rank = 0, .world_size = 2});
    later.join();
    _exit(outcome.ok() && outcome.value().place ? 0 : 1);
  }
  const auto outcome = meet_on_host({.job = job, .rank = 1, .world_size = 2});
  EXPECT_TRUE(outcome.ok()) << outcome.error().message;
  int status = -1;
  waitpid(leader, &status, 0);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace atp
